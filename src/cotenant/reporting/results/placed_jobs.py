"""Plans for jobs, and comparisons of policies."""

from collections.abc import Mapping, Sequence

from cotenant.planning.assignment import JobPlan, Placed
from cotenant.planning.comparison import OURS, PolicyComparison
from cotenant.reporting.elements import SIMULATED, DataTable, Element, Sentence, Sentences, grouped
from cotenant.reporting.results.varied import short_names
from cotenant.tenancy.interval import Estimate
from cotenant.text import duration, figure

MOST_GPUS = 8
"""Maximum GPUs named per job; `--json` has all."""


def job_elements(plan: JobPlan) -> list[Element]:
    """One line per job, then its GPUs by name, the power, and the jobs that wait."""
    columns = ("job", "GPUs", "clock MHz", "beside", "time", "stretch", "W", "kJ")
    rows = tuple(
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
    )
    short = short_names([gpu for job in plan.placed for gpu in job.gpus])
    budget = "" if plan.budget_w is None else f" of a budget of {figure(plan.budget_w)} W"
    names = ", ".join(job.name for job in plan.waiting)
    wait = f"no GPU is left for {names}: they wait, or mark jobs with `share: true`"
    return [
        _head(f"plan for {plan.objective}; all figures are predicted", simulated=plan.simulated),
        DataTable(columns, rows),
        Sentences(tuple(_where(job, short) for job in plan.placed)),
        Sentence(f"all GPUs together draw {figure(plan.power_w)} W{budget}"),
        *([Sentence(wait, "open")] if plan.waiting else ()),
    ]


def _head(title: str, *, simulated: bool) -> Sentence:
    return Sentence(f"{title} from {f'simulated profiles {SIMULATED}' if simulated else 'measured profiles'}", "answer")


def _where(placed: Placed, short: Mapping[str, str]) -> str:
    names = ", ".join(short[gpu] for gpu in placed.gpus[:MOST_GPUS])
    more = len(placed.gpus) - MOST_GPUS
    return f"{placed.job.name}: {names}" + (f" and {more} more" if more > 0 else "")


def policy_elements(compared: Sequence[PolicyComparison]) -> list[Element]:
    """One row per policy: ratios to ours on the same jobs, with the absolute values if there is room."""
    simulated = any(replay.simulated for replay in compared)
    wide = ("policy", "job time h", "over ours", "makespan h", "over ours", "energy MJ", "over ours")
    narrow = ("policy", "job time, vs. ours", "makespan", "energy")
    names = [f"{replay.policy} (ours)" if replay.policy == OURS else replay.policy for replay in compared]
    figures = [
        (
            (figure(replay.completion_s.est / 3600), replay.completion_ratio),
            (figure(replay.makespan_s.est / 3600), replay.makespan_ratio),
            (figure(replay.energy_j.est / 1e6, 4), replay.energy_ratio),
        )
        for replay in compared
    ]
    whole = [("", (name, *(text for value, ratio in row for text in (value, _ratio(ratio, 4)))))
             for name, row in zip(names, figures, strict=True)]  # fmt: skip
    short = [("", (name, *(_ratio(ratio, 3) for _, ratio in row))) for name, row in zip(names, figures, strict=True)]
    head = _head("drawn jobs replayed under each policy, predicted", simulated=simulated)
    return [head, grouped(wide, whole, narrow=grouped(narrow, short))]


def _ratio(ratio: Estimate, digits: int) -> str:
    if ratio.lo == ratio.est == ratio.hi:
        return f"{ratio.est:g}"  # ours relative to ours
    ends = "" if ratio.lo is None or ratio.hi is None else f" [{ratio.lo:.{digits}f}, {ratio.hi:.{digits}f}]"
    return f"{ratio.est:.{digits}f}{ends}"
