"""`verify`: are all runs unchanged since they were written?"""

from typing import TYPE_CHECKING

from cotenant.api.paths import Runs, run_paths

if TYPE_CHECKING:
    from cotenant.store.verifying import Verified


def verify(runs: Runs) -> "tuple[Verified, ...]":
    """Compare every file of the runs with its seal, and count every trial's rows. Read-only."""
    from cotenant.store.verifying import verify_run

    return tuple(map(verify_run, dict.fromkeys(run_paths(runs))))
