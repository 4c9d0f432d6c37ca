"""Plans and comparisons of policies, for a terminal."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from cotenant.analyse.estimate import Estimate
from cotenant.plan.assignment import Placed, Plan
from cotenant.plan.comparison import OURS, Compared
from cotenant.report.listing import listing
from cotenant.report.literal import literal
from cotenant.report.numbers import duration, figure

MOST_GPUS = 2


def plan_tables(plan: Plan) -> tuple[RenderableType, ...]:
    """A line per job, then the power, then who has to wait."""
    columns = ("job", "GPUs", "clock MHz", "beside", "time", "stretch", "W", "kJ")
    rows = [
        (
            one.job.name,
            _gpus(one),
            f"{one.clock_mhz:.0f}",
            one.beside or "",
            duration(one.seconds),
            f"{one.stretch:.3f}",
            figure(one.power_w),
            figure(one.energy_j / 1e3),
        )
        for one in plan.placed
    ]
    budget = "" if plan.budget_w is None else f" of a budget of {figure(plan.budget_w)} W"
    head = Text(literal(f"plan for {plan.objective}; all figures are predicted from measured profiles"), "bold")
    parts: list[RenderableType] = [
        head,
        listing(columns, rows),
        Text(f"all GPUs together draw {figure(plan.power_w)} W{budget}"),
    ]
    if plan.waiting:
        names = ", ".join(job.name for job in plan.waiting)
        parts.append(Text(literal(f"no GPU is left for {names}: they wait, or mark jobs with `share: true`"), "yellow"))
    return tuple(parts)


def _gpus(placed: Placed) -> str:
    names = [gpu if len(gpu) <= 14 else f"{gpu[:12]}…" for gpu in placed.gpus[:MOST_GPUS]]
    more = len(placed.gpus) - len(names)
    return " ".join(names) + (f" and {more} more" if more > 0 else "")


def comparison_table(compared: Sequence[Compared]) -> RenderableType:
    """Policies below each other; ratios over ours on the same jobs."""
    columns = ("policy", "job time h", "over ours", "makespan h", "over ours", "energy MJ", "over ours")
    rows = [
        (
            f"{one.policy} (ours)" if one.policy == OURS else one.policy,
            figure(one.completion_s.est / 3600),
            _ratio(one, one.completion_ratio),
            figure(one.makespan_s.est / 3600),
            _ratio(one, one.makespan_ratio),
            figure(one.energy_j.est / 1e6, 4),
            _ratio(one, one.energy_ratio),
        )
        for one in compared
    ]
    return listing(columns, rows)


def _ratio(one: Compared, ratio: Estimate) -> str:
    if one.policy == OURS:
        return "1"
    interval = "" if ratio.lo is None or ratio.hi is None else f" [{ratio.lo:.4f}, {ratio.hi:.4f}]"
    return f"{ratio.est:.4f}{interval}"
