"""`show`: what runs came to."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cotenant.analyse.summary import Summary


def show(runs: Sequence[Path]) -> "Summary":
    """Throughput, latency, slowdown, fairness: every number with its interval.

    Raises:
        RunFolderError: A folder is not a run, is damaged, or is of a newer schema.
    """
    from cotenant.analyse.summary import summarise
    from cotenant.store.observe import observations

    return summarise(observation for observation in observations(runs, raw=True) if observation.block >= 0)
