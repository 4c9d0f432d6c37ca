"""`compare plan.yaml RUN`: the plan against what was measured or served."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.api.paths import AnyPath
from cotenant.errors import RunFolderError

if TYPE_CHECKING:
    from cotenant.planning.mixes.reality import Beside


@dataclass(frozen=True, slots=True)
class PlanAndReality:
    """A plan and a run of it."""

    plan: str
    runs: tuple[str, ...]
    rows: "tuple[Beside, ...]"
    simulated: bool
    """The run is from a simulated device."""

    @property
    def missed(self) -> bool:
        """An objective promised by the plan was missed."""
        return any(row.kept == "missed" for row in self.rows)

    @property
    def as_planned(self) -> bool:
        """Nothing is slower than the plan's interval, and everything is known."""
        return all(row.verdict in {"as planned", "faster"} for row in self.rows)


def compare_plan(plan: AnyPath, runs: Sequence[str | Path]) -> PlanAndReality:
    """Compare a plan with runs of it: `cotenant run plan.yaml`, or served traffic.

    Args:
        plan: A plan.yaml.
        runs: Run folders or saved names; tenants are matched by name.

    Raises:
        CotenantError: The plan or a run can't be read, or they have no tenant in common.
    """
    from cotenant.api.planning.written import read_plan
    from cotenant.api.show import show
    from cotenant.planning.mixes.reality import beside
    from cotenant.store import baselines

    plan = Path(plan)
    document = read_plan(plan)
    paths = [baselines.resolve(str(run)) for run in runs]
    results = [show(path) for path in paths]
    rows = [row for result in results for row in result.tenants]
    found = beside(document, rows)
    if not found:
        raise RunFolderError(
            f"{' and '.join(map(str, paths))} measured no tenant of {plan}",
            hint=f"measure the plan: cotenant run {plan}",
        )
    return PlanAndReality(str(plan), tuple(map(str, paths)), found, any(row.cell.simulated for row in rows))
