"""Carries out one trial and ends: `python -m cotenant.measure.profile.one_trial ORDER`.

A process of its own, so that a profiler can be put around it and all of its tenants, and around nothing else.
"""

import sys
from pathlib import Path
from typing import Any

from cotenant.errors import CotenantError
from cotenant.tenancy import Frozen, Trial


class Order(Frozen):
    """What to carry out, and where to leave its records."""

    device: str
    trial: Trial
    rates: dict[str, float]
    folder: str
    """A run folder, new, for this trial alone."""
    manifest: dict[str, Any]


def main(file: Path) -> int:
    """Do as the order says; a failure is a sentence on standard error."""
    order = Order.model_validate_json(file.read_text(encoding="utf-8"))
    from cotenant.devices import find_device
    from cotenant.measure.profile.bench import bench_for
    from cotenant.store.folder import RunFolder

    try:
        device = find_device(order.device)
        folder = RunFolder.create(Path(order.folder), order.manifest)
        bench = bench_for(device, folder.run)
        try:
            bench.prepare([order.trial])
            folder.commit(bench.carry_out(order.trial, session=0, rates=order.rates))
        except BaseException:
            bench.kill()
            raise
        bench.close()  # in order: a profiler writes down what it saw when a tenant ends by itself
    except CotenantError as error:
        print(error.message, file=sys.stderr)  # noqa: T201 - read by the pass that started this process
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
