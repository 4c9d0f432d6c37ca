"""Plans and comparisons of policies, for a terminal."""

from collections.abc import Mapping, Sequence

from rich.console import RenderableType
from rich.text import Text

from cotenant.analyse.estimates.estimate import Estimate
from cotenant.planning.assignment import JobPlan, Placed
from cotenant.planning.comparison import OURS, PolicyComparison
from cotenant.reporting.elements.terminal import sentence_list
from cotenant.reporting.terminal.grouped import Fitting, Grouped, GroupedRows, listing
from cotenant.reporting.terminal.literal import literal
from cotenant.reporting.terminal.variability import short_names
from cotenant.text import duration, figure

MOST_GPUS = 8
"""Maximum GPUs named per job; `--json` has all."""


def plan_tables(plan: JobPlan) -> tuple[RenderableType, ...]:
    """One line per job, then its GPUs by name, the power, and the jobs that wait."""
    columns = ("job", "GPUs", "clock MHz", "beside", "time", "stretch", "W", "kJ")
    rows = [
        (
            job.job.name,
            len(job.gpus),
            f"{job.clock_mhz:.0f}",
            job.beside or "",
            duration(job.seconds),
            f"{job.stretch:.3f}",
            figure(job.power_w),
            figure(job.energy_j / 1e3),
        )
        for job in plan.placed
    ]
    short = short_names([gpu for job in plan.placed for gpu in job.gpus])
    budget = "" if plan.budget_w is None else f" of a budget of {figure(plan.budget_w)} W"
    parts: list[RenderableType] = [
        _head(f"plan for {plan.objective}; all figures are predicted", simulated=plan.simulated),
        listing(columns, rows),
        sentence_list([_where(job, short) for job in plan.placed]),
        Text(f"all GPUs together draw {figure(plan.power_w)} W{budget}"),
    ]
    if plan.waiting:
        names = ", ".join(job.name for job in plan.waiting)
        parts.append(Text(literal(f"no GPU is left for {names}: they wait, or mark jobs with `share: true`"), "yellow"))
    return tuple(parts)


def _head(title: str, *, simulated: bool) -> Text:
    if simulated:
        return Text(f"{title} from simulated profiles", "bold") + Text(" SIMULATED", "bold magenta")
    return Text(f"{title} from measured profiles", "bold")


def _where(placed: Placed, short: Mapping[str, str]) -> str:
    names = ", ".join(short[gpu] for gpu in placed.gpus[:MOST_GPUS])
    more = len(placed.gpus) - MOST_GPUS
    return f"{placed.job.name}: {names}" + (f" and {more} more" if more > 0 else "")


def comparison_parts(compared: Sequence[PolicyComparison]) -> tuple[RenderableType, ...]:
    """A description of the replay, then the table."""
    head = _head(
        "drawn jobs replayed under each policy, predicted", simulated=any(replay.simulated for replay in compared)
    )
    return head, comparison_table(compared)


def comparison_table(compared: Sequence[PolicyComparison]) -> Fitting:
    """One row per policy: ratios to ours on the same jobs, with the absolute values if there is room."""
    wide = ("policy", "job time h", "over ours", "makespan h", "over ours", "energy MJ", "over ours")
    figures = [
        (
            (figure(replay.completion_s.est / 3600), replay.completion_ratio),
            (figure(replay.makespan_s.est / 3600), replay.makespan_ratio),
            (figure(replay.energy_j.est / 1e6, 4), replay.energy_ratio),
        )
        for replay in compared
    ]
    whole = [[text for value, ratio in row for text in (value, _ratio(ratio, 4))] for row in figures]
    short = [[_ratio(ratio, 3) for _, ratio in row] for row in figures]
    narrow = ("policy", "job time, vs. ours", "makespan", "energy")
    return Fitting((_policies(wide, compared, whole), _policies(narrow, compared, short)))


def _policies(columns: Sequence[str], compared: Sequence[PolicyComparison], rows: Sequence[Sequence[str]]) -> Grouped:
    names = [f"{replay.policy} (ours)" if replay.policy == OURS else replay.policy for replay in compared]
    lines = [tuple(Text(literal(text)) for text in (name, *row)) for name, row in zip(names, rows, strict=True)]
    return Grouped(columns, [GroupedRows(Text(), tuple(lines))])


def _ratio(ratio: Estimate, digits: int) -> str:
    if ratio.lo == ratio.est == ratio.hi:
        return f"{ratio.est:g}"  # ours relative to ours
    ends = "" if ratio.lo is None or ratio.hi is None else f" [{ratio.lo:.{digits}f}, {ratio.hi:.{digits}f}]"
    return f"{ratio.est:.{digits}f}{ends}"
