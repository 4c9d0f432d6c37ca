"""Plans for jobs."""

from collections.abc import Mapping

from cotenant.planning.assignment import JobPlan, Placed
from cotenant.reporting.elements import SIMULATED, DataTable, Element, Sentence, Sentences
from cotenant.reporting.results.varied import short_names
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
    profiles = f"simulated profiles {SIMULATED}" if plan.simulated else "measured profiles"
    return [
        Sentence(f"plan for {plan.objective}; all figures are predicted from {profiles}", "answer"),
        DataTable(columns, rows),
        Sentences(tuple(_where(job, short) for job in plan.placed)),
        Sentence(f"all GPUs together draw {figure(plan.power_w)} W{budget}"),
        *([Sentence(wait, "open")] if plan.waiting else ()),
    ]


def _where(placed: Placed, short: Mapping[str, str]) -> str:
    names = ", ".join(short[gpu] for gpu in placed.gpus[:MOST_GPUS])
    more = len(placed.gpus) - MOST_GPUS
    return f"{placed.job.name}: {names}" + (f" and {more} more" if more > 0 else "")
