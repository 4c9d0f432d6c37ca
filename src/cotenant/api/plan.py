"""`plan`: which job runs where, beside which other, at which clock; and a comparison of policies on measured GPUs."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.errors import DatabaseError
from cotenant.paths import AnyPath

if TYPE_CHECKING:
    from cotenant.planning.assignment import Objective, Plan
    from cotenant.planning.comparison import PolicyComparison
    from cotenant.planning.fleet import Fleet

MOST_NAMED = 5
FIRST_SEED = 1
"""Draws from 1000 on were used to tune our policy's prices; these were not."""


def plan(
    jobs: AnyPath,
    *,
    objective: "Objective" = "time",
    power_budget_w: float | None = None,
    work: str | None = None,
    db: AnyPath | None = None,
) -> "Plan":
    """A plan for the jobs of a file on the GPUs of the database.

    Args:
        jobs: A YAML file.
        objective: `time`, `energy` or `fairness`.
        power_budget_w: Limit on the power of all GPUs together.
        work: The work in the database whose measurements describe the GPUs; it should keep them at their power limit.
        db: The database's folder instead of the default.

    Raises:
        CotenantError: The file is wrong, the database has no such work, or the budget can't be met.
    """
    from cotenant.planning import assignment
    from cotenant.planning.jobs_file import read_jobs

    jobs = Path(jobs)
    wanted = read_jobs(jobs)
    return assignment.plan(measured_fleet(work, db), wanted, objective=objective, budget_w=power_budget_w)


def compare_policies(
    *,
    work: str | None = None,
    db: AnyPath | None = None,
    jobs: int = 2000,
    draws: int = 20,
    load: float = 0.9,
    progress: Callable[[int], None] = lambda _: None,
) -> "tuple[PolicyComparison, ...]":
    """Replay random jobs on the database's GPUs under every policy.

    Args:
        work: As for `plan`.
        db: The database's folder instead of the default.
        jobs: Jobs per draw.
        draws: Number of draws; intervals are over these.
        load: GPU time requested over GPU time available.
        progress: Called after each draw.
    """
    from cotenant.planning.comparison import compare

    seeds = range(FIRST_SEED, FIRST_SEED + draws)
    return compare(measured_fleet(work, db), count=jobs, seeds=seeds, load=load, progress=progress)


def measured_fleet(work: str | None, db: AnyPath | None) -> "Fleet":
    """The GPUs of the database under one kind of work."""
    from cotenant.api.db import db_gpus
    from cotenant.planning.fleet import fleet_of

    found = db_gpus(work, db=db)
    if not found:
        raise DatabaseError(
            "the database has sensor readings, but no measured work that describes its GPUs",
            hint="measure some: cotenant run variability --devices all, then cotenant db add RUN",
        )
    if len(found) > 1:
        names = ", ".join(one.work for one in found[:MOST_NAMED])
        names += f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        raise DatabaseError(
            f"the database contains {len(found)} kinds of work: {names}",
            hint="say which one describes the GPUs best with --work, e.g. --work sgemm",
        )
    fleet = fleet_of(found[0].profiles, simulated=found[0].simulated)
    if not len(fleet):
        raise DatabaseError(
            f"no GPU has both a clock and a power under {found[0].work}",
            hint="measure with sensors: cotenant run variability --devices all",
        )
    return fleet
