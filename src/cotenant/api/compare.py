"""`compare`: is it faster, slower or the same as before?"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cotenant.api.handles import Comparison


def compare(runs: Sequence[str | Path], *, margin: float = 0.03) -> "Comparison":
    """Compare two runs (before, now), find the steps in a history, put devices side by side, or judge a plan.

    Args:
        runs: Run folders, or names of saved baselines. One study on several devices is put side by side; three or more
            runs on a device are a history; first a plan.yaml: which of its promises were kept?
        margin: The smallest change that matters, e.g. 0.03 for 3 %.

    Raises:
        RunFolderError: There are too few runs, one can't be read, or they can't be compared.
    """
    from cotenant.analyse.comparison import History
    from cotenant.analyse.result import SideBySide
    from cotenant.api.handles import Comparison
    from cotenant.store.compared import compare_plan, compared_runs

    if runs and str(runs[0]).endswith((".yaml", ".yml")):
        return Comparison("plan", compare_plan(runs[0], runs[1:]))
    found = compared_runs(runs, margin=margin)
    if isinstance(found, SideBySide):
        return Comparison("devices", found)
    return Comparison("history" if isinstance(found, History) else "pair", found)


def save_baseline(run: str | Path, name: str) -> Path:
    """Save a run under a name for later comparisons; only its path is stored. Returns the file written.

    Raises:
        RunFolderError: It is not a run, or the name is not valid.
    """
    from cotenant.store import baselines

    return baselines.save(baselines.resolve(str(run)), name)
