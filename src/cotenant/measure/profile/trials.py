"""Carries out the trials of a profile pass and ends: `python -m cotenant.measure.profile.trials ORDER`.

A process of its own, so that a profiler can be put around it and all of its tenants, and around nothing else.
"""

import sys
from pathlib import Path
from typing import Any

from cotenant.errors import CotenantError
from cotenant.tenancy.nouns import Frozen, Trial

BEGINS, DONE = "cotenant-profile begins ", "cotenant-profile done "
"""Lines by which it tells how far it is; the trial's number follows, or its verdict."""


class Order(Frozen):
    """What to carry out, and where to leave the records."""

    device: str
    trials: tuple[Trial, ...]
    rates: dict[str, float]
    folder: str
    """A run folder, new, for these trials alone."""
    manifest: dict[str, Any]


def main(file: Path) -> int:
    """Do as the order says; a failure is a sentence on standard error."""
    order = Order.model_validate_json(file.read_text(encoding="utf-8"))
    from cotenant.devices import find_device
    from cotenant.measure.bench import bench_for
    from cotenant.store.folder import RunFolder

    try:
        device = find_device(order.device)
        folder = RunFolder.create(Path(order.folder), order.manifest)
        bench = bench_for(device, run=folder.run)
        try:
            bench.prepare(order.trials)
            for trial in order.trials:
                _tell(f"{BEGINS}{trial.number}")
                records = bench.carry_out(trial, session=0, rates=order.rates)
                folder.commit(records)
                _tell(f"{DONE}{records.trial['verdict']}")
        except BaseException:
            bench.kill()
            raise
        bench.close()  # in order: a profiler writes down what it saw when a tenant ends by itself
    except CotenantError as error:
        _tell(error.message)
        return 1
    return 0


def _tell(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - read by the pass that started this process


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
