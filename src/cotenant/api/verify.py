"""`verify`: are all runs unchanged since they were written?"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cotenant.store.verifying import Verified


def verify(runs: Sequence[Path]) -> "tuple[Verified, ...]":
    """Compare every file of the runs with its seal, and count every trial's rows. Read-only."""
    from cotenant.store.verifying import verify_run

    return tuple(map(verify_run, dict.fromkeys(runs)))
