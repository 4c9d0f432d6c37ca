"""Preconditions of a search."""

import shutil
from collections.abc import Sequence

from cotenant.errors import CotenantError
from cotenant.ranking.baselines import SIDE
from cotenant.ranking.folder import SearchFolder
from cotenant.ranking.halving import Round
from cotenant.ranking.preparation import Prepared


def require_same_inputs(folder: SearchFolder, ready: Prepared) -> None:
    """A resumed search must find what it left; a new one notes it."""
    names = [one.name for one in ready.bench.candidates]
    now = {
        "data": ready.bench.data.fingerprint,
        "batch": ready.bench.batch,
        "candidates": {names[one]: ready.paths[one].leaf for one in ready.ranked},
    }
    before = folder.known.get("inputs")
    if before is not None and before != now:
        changed = "the data" if before["data"] != now["data"] else "a candidate"
        raise CotenantError(
            f"{changed} of {folder.path} changed, so the search can't be resumed",
            hint="start a new search",
        )
    folder.note(inputs=now)


def require_space(folder: SearchFolder, ready: Prepared, plan: Sequence[Round]) -> None:
    """Check that there is disk space for the features."""
    widest = max((ready.paths[one].steps[-1].out_bytes for one in ready.ranked), default=0)
    needed, shown = 0, 0
    for step in plan:
        needed += step.models * (step.items - shown) * widest
        shown = step.items
    needed += shown * (widest + 4 * 3 * SIDE**2)
    free = shutil.disk_usage(folder.path).free
    if needed > free:
        raise CotenantError(
            f"not enough space for the features: they take up to {needed / 1e9:.3g} GB, but {folder.path} has "
            f"{free / 1e9:.3g} GB free",
            hint="--out a folder on another disk, or fewer models",
        )
