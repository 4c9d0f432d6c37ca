"""`compare`: is it faster, slower or the same as before?"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cotenant.analyse.comparison.history import History
    from cotenant.analyse.comparison.pair import Comparison
    from cotenant.analyse.findings.devices import SideBySide
    from cotenant.analyse.sharing.evidence import TenantEvidence
    from cotenant.errors import CotenantError
    from cotenant.store.folder import RunFolder


def compare(runs: Sequence[str | Path], *, margin: float = 0.03) -> "Comparison | History | SideBySide":
    """Compare two runs (before, now), find the steps in a history of three or more, or put devices side by side.

    Args:
        runs: Run folders, or names of saved baselines.
        margin: The smallest change that matters, e.g. 0.03 for 3 %.

    Raises:
        RunFolderError: There are too few runs, one can't be read, or they can't be compared.
    """
    from cotenant.analyse.comparison.environment import differences, forbids
    from cotenant.analyse.comparison.history import FEWEST_RUNS, compare_history
    from cotenant.analyse.comparison.pair import compare_pair
    from cotenant.errors import RunFolderError
    from cotenant.store import baselines
    from cotenant.store.evidence import evidence
    from cotenant.store.reading import open_runs
    from cotenant.store.results import result_of
    from cotenant.store.watched import require_requests

    paths = [baselines.resolve(str(run)) for run in runs]
    if len(paths) < 2:
        raise RunFolderError("A comparison needs at least two runs.", hint="cotenant compare BEFORE NOW")
    if len({path.resolve() for path in paths}) < len(paths):
        raise RunFolderError(
            f"{' and '.join(map(str, paths))} can't be compared: both are the same run.",
            hint="Name each run once.",
        )
    with open_runs(paths) as opened:
        require_requests(opened, "a comparison")
        folders = list(opened.folders.values())
        if _one_study_on_several(opened.manifests) and (beside := result_of(opened).side_by_side) is not None:
            return beside
        for earlier, later in pairwise(folders):
            if reason := forbids(earlier.manifest, later.manifest):
                raise RunFolderError(
                    f"{earlier.path} and {later.path} can't be compared: {reason}.",
                    hint="Compare runs of one study on one device.",
                )
        everything = evidence(opened)
    found: Comparison | History
    if len(folders) > 2:
        everything, left_out = _mostly_valid(everything)
        if len(folders) - len(left_out) < FEWEST_RUNS:
            raise RunFolderError(
                f"A history needs three runs. {' '.join(left_out)}", hint="Measure on a quiet machine."
            )
        found = compare_history(everything, margin=margin, notes=[*left_out, *_notes(folders)])
    else:
        before, now = folders
        found = compare_pair(
            *([one for one in everything if one.seen.run == folder.run] for folder in folders),
            margin=margin,
            notes=differences(before.manifest, now.manifest),
        )
    if not found.rows:
        raise _nothing_in_common(folders)
    return found


def _one_study_on_several(manifests: "Sequence[Mapping[str, Any]]") -> bool:
    studies = {manifest.get("study_name") for manifest in manifests}
    devices = {manifest.get("device") for manifest in manifests}
    return len(studies) == 1 and len(devices) == len(manifests)


def save_baseline(run: str | Path, name: str) -> Path:
    """Save a run under a name for later comparisons; only its path is stored. Returns the file written.

    Raises:
        RunFolderError: It is not a run, or the name is not valid.
    """
    from cotenant.store import baselines

    return baselines.save(baselines.resolve(str(run)), name)


def _mostly_valid(everything: "list[TenantEvidence]") -> "tuple[list[TenantEvidence], list[str]]":
    """Evidence of the runs whose trials are mostly valid, and a sentence for each run that was left out."""
    from cotenant.analyse.comparison.pair import quality

    by_run: dict[str, list[TenantEvidence]] = {}
    for item in everything:
        by_run.setdefault(item.seen.run, []).append(item)
    kept, said = [], []
    for run, items in by_run.items():
        found = quality(items)
        if found.mostly_valid:
            kept += items
        else:
            checks = ", ".join(found.failed_checks)
            said.append(f"Run {run} was left out: {found.doubtful} of {found.trials} trials are not valid ({checks}).")
    return kept, said


def _notes(folders: "Sequence[RunFolder]") -> list[str]:
    """What changed from each run to the next, in order of time."""
    from cotenant.analyse.comparison.environment import differences

    ordered = sorted(folders, key=lambda folder: folder.run)
    return [
        f"Before run {later.run}: {sentence}"
        for earlier, later in pairwise(ordered)
        for sentence in differences(earlier.manifest, later.manifest)
    ]


def _nothing_in_common(folders: "Sequence[RunFolder]") -> "CotenantError":
    from cotenant.errors import RunFolderError

    return RunFolderError(
        f"{' and '.join(str(folder.path) for folder in folders)} have no cell in common: no tenant with the same mix, "
        "sharing, load and settings.",
        hint="Compare runs of one study.",
    )
