"""`compare plan.yaml RUN`: the plan against what was measured or served."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.errors import RunFolderError
from cotenant.paths import AnyPath

if TYPE_CHECKING:
    from cotenant.analyse.promises import JudgedPromise


@dataclass(frozen=True, slots=True)
class PlanAndReality:
    """A plan and a run of it."""

    plan: str
    runs: tuple[str, ...]
    rows: "tuple[JudgedPromise, ...]"
    simulated: bool
    """The run is from a simulated device."""

    @property
    def missed(self) -> bool:
        """An objective promised by the plan was missed."""
        return any(row.verdict == "missed" for row in self.rows)

    @property
    def kept(self) -> bool:
        """Every objective that the run covers was kept."""
        return all(row.verdict == "kept" for row in self.rows)


def compare_plan(plan: AnyPath, runs: Sequence[str | Path]) -> PlanAndReality:
    """Compare a plan with runs of it: `cotenant run plan.yaml`, or served traffic.

    Args:
        plan: A plan.yaml.
        runs: Run folders or saved names; tenants are matched by name.

    Raises:
        CotenantError: The plan or a run can't be read, or they have no tenant in common.
    """
    from cotenant.analyse.promises import judge_plan
    from cotenant.store import baselines
    from cotenant.store.observe import observations
    from cotenant.store.reading import open_runs
    from cotenant.store.traffic import SERVED
    from cotenant.store.watched import require_requests
    from cotenant.tenancy.plan import read_plan

    plan = Path(plan)
    promised = read_plan(plan)
    paths = [baselines.resolve(str(run)) for run in runs]
    with open_runs(paths) as opened:
        require_requests(opened, "a verdict about a plan")
        served = all(manifest.get("study_name") == SERVED for manifest in opened.manifests)
        rows = judge_plan(promised, observations(opened, raw=True), served=served)
        simulated = any(bool(manifest.get("simulated")) for manifest in opened.manifests)
    if not rows:
        raise RunFolderError(
            f"{' and '.join(map(str, paths))} has no requests of a tenant of {plan}",
            hint=f"measure the plan: cotenant run {plan}",
        )
    return PlanAndReality(str(plan), tuple(map(str, paths)), rows, simulated)
