"""Carries out the trials of a profile pass: `python -m cotenant.measure.profile.trials ORDER`.

A separate process, so that a profiler wraps it and its tenants and nothing else.
"""

import sys
from pathlib import Path
from typing import Any

from cotenant.errors import CotenantError
from cotenant.tenancy.nouns import Trial
from cotenant.tenancy.values import Frozen

BEGINS, DONE = "cotenant-profile begins ", "cotenant-profile done "
"""Progress lines; the trial's number or its verdict follows."""


class Order(Frozen):
    """The trials, and where to leave the records."""

    device: str
    trials: tuple[Trial, ...]
    rates: dict[str, float]
    folder: str
    """A new run folder for these trials alone."""
    manifest: dict[str, Any]


def main(file: Path) -> int:
    """Carry out the order; a failure is a sentence on standard error."""
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
        bench.close()  # in order: a profiler writes its results when a tenant exits by itself
    except CotenantError as error:
        _tell(error.message)
        return 1
    return 0


def _tell(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - read by the pass that started this process


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
