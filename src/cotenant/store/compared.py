"""What several runs say together: two compared, a history, devices side by side, or a plan against its runs."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.errors import RunFolderError
from cotenant.paths import AnyPath

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cotenant.analyse.comparison import History, PairComparison
    from cotenant.analyse.judged_promises import PlanAndReality
    from cotenant.analyse.result import SideBySide
    from cotenant.analyse.sharing import TenantEvidence
    from cotenant.store.reading import OpenRuns


def compared_runs(runs: Sequence[str | Path], *, margin: float = 0.03) -> "PairComparison | History | SideBySide":
    """What `compare` says of runs, as the value that fits them."""
    from cotenant.analyse.comparison import (
        FEWEST_RUNS,
        changes_over_time,
        compare_history,
        compare_pair,
        differences,
        forbids,
        mostly_valid,
    )
    from cotenant.analyse.result import result_of
    from cotenant.store import baselines
    from cotenant.store.evidence import evidence
    from cotenant.store.reading import open_runs
    from cotenant.store.run_records import run_records
    from cotenant.store.watched import all_watched

    paths = [baselines.resolve(str(run)) for run in runs]
    if len(paths) < 2:
        raise RunFolderError("A comparison needs at least two runs.", hint="cotenant compare BEFORE NOW")
    if len({path.resolve() for path in paths}) < len(paths):
        raise RunFolderError(
            f"{' and '.join(map(str, paths))} can't be compared: both are the same run.",
            hint="Name each run once.",
        )
    with open_runs(paths) as opened:
        folders = list(opened.folders.values())
        watched = all_watched(opened)
        if (
            not watched
            and _one_study_on_several(opened.manifests)
            and (beside := result_of(run_records(opened)).side_by_side) is not None
        ):
            return beside
        for earlier, later in pairwise(folders):
            if reason := forbids(earlier.manifest, later.manifest):
                raise RunFolderError(
                    f"{earlier.path} and {later.path} can't be compared: {reason}.",
                    hint="Compare runs of one study on one device.",
                )
        everything, said = _watched_evidence(opened) if watched else (evidence(opened), [])
    found: PairComparison | History
    if len(folders) > 2:
        everything, left_out = mostly_valid(everything)
        if len(folders) - len(left_out) < FEWEST_RUNS:
            raise RunFolderError(
                f"A history needs three runs. {' '.join(left_out)}", hint="Measure on a quiet machine."
            )
        found = compare_history(
            everything,
            margin=margin,
            notes=[*left_out, *said, *changes_over_time([(folder.run, folder.manifest) for folder in folders])],
        )
    else:
        before, now = folders
        found = compare_pair(
            *([observation for observation in everything if observation.seen.run == folder.run] for folder in folders),
            margin=margin,
            notes=[*said, *differences(before.manifest, now.manifest)],
        )
    if not found.rows:
        raise RunFolderError(
            f"{' and '.join(map(str, paths))} have no cell in common: no tenant with the same mix, sharing, load and "
            "settings.",
            hint="Compare runs of one study.",
        )
    return found


def _watched_evidence(opened: "OpenRuns") -> "tuple[list[TenantEvidence], list[str]]":
    """Times of watched servers in blocks. Raises RunFolderError if the runs have no tenant with times in common."""
    from cotenant.analyse.neighbours import block_evidence
    from cotenant.store.watched import watched_runs

    found, notes = block_evidence(watched_runs(opened))
    if not found:
        raise RunFolderError(
            " ".join(notes) or f"{' and '.join(map(str, opened.paths))} have no tenant with times in common.",
            hint="Watch the same servers again, by the same names: cotenant watch chat=localhost:8000",
        )
    return found, notes


def _one_study_on_several(manifests: "Sequence[Mapping[str, Any]]") -> bool:
    studies = {manifest.get("study_name") for manifest in manifests}
    devices = {manifest.get("device") for manifest in manifests}
    return len(studies) == 1 and len(devices) == len(manifests)


def compare_plan(plan: AnyPath, runs: Sequence[str | Path]) -> "PlanAndReality":
    """Compare a plan with runs of it: `cotenant run plan.yaml`, served traffic, or servers that were watched.

    Args:
        plan: A plan.yaml.
        runs: Run folders or saved names; tenants are matched by name.

    Raises:
        CotenantError: The plan or a run can't be read, or they have no tenant in common.
    """
    from cotenant.analyse.judged_promises import PlanAndReality, judge_plan, judge_watched
    from cotenant.store import baselines
    from cotenant.store.observe import observations
    from cotenant.store.reading import open_runs
    from cotenant.store.watched import all_watched, watched_counts
    from cotenant.tenancy.plan_document import read_plan
    from cotenant.tenancy.records import SERVED

    plan = Path(plan)
    promised = read_plan(plan)
    paths = [baselines.resolve(str(run)) for run in runs]
    with open_runs(paths) as opened:
        if all_watched(opened):
            rows = judge_watched(promised, watched_counts(opened))
        else:
            served = all(manifest.get("study_name") == SERVED for manifest in opened.manifests)
            rows = judge_plan(promised, observations(opened, raw=True), served=served)
        simulated = any(bool(manifest.get("simulated")) for manifest in opened.manifests)
    if not rows:
        raise RunFolderError(
            f"{' and '.join(map(str, paths))} has no requests of a tenant of {plan}",
            hint=f"measure the plan: cotenant run {plan}",
        )
    return PlanAndReality(str(plan), tuple(map(str, paths)), rows, simulated)
