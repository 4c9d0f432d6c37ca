"""A plan for jobs that are there now: which GPUs, beside whom, at which clock, and what that is predicted to give."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cotenant.analyse.estimates.intervals import Floats
from cotenant.planning.clocks import clocks_within, thriftiest_clock, waiting_clocks
from cotenant.planning.fleet import Fleet, Numbers
from cotenant.planning.jobs import JobClass
from cotenant.planning.pairing import estimated_slowdown, pair_up
from cotenant.planning.policies import Slack

Objective = Literal["time", "energy", "fairness"]
OBJECTIVES: tuple[Objective, ...] = ("time", "energy", "fairness")


@dataclass(frozen=True, slots=True)
class Job:
    """One job that wants to run."""

    name: str
    kind: JobClass
    gpus: int
    seconds: float
    """On median GPUs."""
    shareable: bool = False
    """May share its GPU with another job."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a job goes. Times, power and energy are predictions from measured profiles."""

    job: Job
    gpus: tuple[str, ...]
    clock_mhz: float
    """The lowest of its GPUs."""
    beside: str | None
    seconds: float
    power_w: float
    """Of its GPUs together; shared ones are halved between the two."""
    stretch: float
    """Its time over that on median GPUs of its own."""

    @property
    def energy_j(self) -> float:
        """Power times time."""
        return self.power_w * self.seconds


@dataclass(frozen=True, slots=True)
class Plan:
    """All of it."""

    objective: Objective
    placed: tuple[Placed, ...]
    waiting: tuple[Job, ...]
    """There was no GPU left for these."""
    power_w: float
    """Of all GPUs, idle ones too."""
    budget_w: float | None
    simulated: bool = False
    """The profiles behind it were computed by a model, not measured."""


def plan(
    fleet: Fleet,
    jobs: Sequence[Job],
    *,
    objective: Objective = "time",
    budget_w: float | None = None,
    slowdowns: Mapping[tuple[str, str], float] | None = None,
) -> Plan:
    """Place jobs on a fleet.

    Args:
        fleet: The GPUs, as measured.
        jobs: In the order in which they came.
        objective: `time`: each done soonest; `energy`: at the clock that needs the least; `fairness`: the job that is
            slowed down most is slowed down least.
        budget_w: All GPUs together draw no more.
        slowdowns: Measured slowdowns of pairs by name; an estimate stands in where one is missing.

    Raises:
        CotenantError: The budget can't be met.
    """
    units, waiting = _units(fleet, jobs, slowdowns or {})
    policy = Slack(fleet)
    free = np.ones(len(fleet), dtype=bool)
    chosen: dict[int, Numbers] = {}
    for number in sorted(range(len(units)), key=lambda one: _order(policy, units[one], objective)):
        unit = units[number]
        gpus = np.sort(policy.choose(unit.kind, unit.count, free))
        free[gpus] = False
        chosen[number] = gpus
    placed = [(unit.kind, chosen[number]) for number, unit in enumerate(units)]
    clocks = [_clocks(fleet, kind, gpus, objective) for kind, gpus in placed]
    if budget_w is not None:
        clocks = clocks_within(fleet, placed, clocks, budget_w)
    rows = [
        row
        for unit, (_, gpus), clock in zip(units, placed, clocks, strict=True)
        for row in _rows(fleet, unit, gpus, clock)
    ]
    drawn = sum(row.power_w for row in rows) + fleet.kind.idle_w * float(free.sum())
    return Plan(objective, tuple(rows), tuple(waiting), drawn, budget_w, fleet.simulated)


@dataclass(frozen=True, slots=True)
class _Unit:
    """What needs GPUs of its own: a job, or two that share one."""

    jobs: tuple[Job, ...]
    slowdown: float = 1.0

    @property
    def kind(self) -> JobClass:
        """Of the one that feels a slow GPU most."""
        return max((job.kind for job in self.jobs), key=lambda kind: kind.core_share)

    @property
    def count(self) -> int:
        return self.jobs[0].gpus


def _units(
    fleet: Fleet, jobs: Sequence[Job], slowdowns: Mapping[tuple[str, str], float]
) -> tuple[list[_Unit], list[Job]]:
    """Jobs as they came while there are GPUs; as many pairs as are needed so that those who may share all run."""

    def slowdown(one: Job, other: Job) -> float:
        known = slowdowns.get((one.name, other.name), slowdowns.get((other.name, one.name)))
        return estimated_slowdown(one.kind, other.kind) if known is None else known

    sharers = [job for job in jobs if job.shareable and job.gpus == 1]
    missing = sum(job.gpus for job in jobs) - len(fleet)
    pairs = pair_up(sharers, min(max(missing, 0), len(sharers) // 2), slowdown)
    unit_of = {id(job): _Unit(pair, slowdown(*pair)) for pair in pairs for job in pair}
    units: list[_Unit] = []
    served: set[int] = set()
    left = len(fleet)
    for job in jobs:
        unit = unit_of.get(id(job), _Unit((job,)))
        if id(job) not in served and unit.count <= left:
            units.append(unit)
            served |= {id(one) for one in unit.jobs}
            left -= unit.count
    return units, [job for job in jobs if id(job) not in served]


def _order(policy: Slack, unit: _Unit, objective: Objective) -> tuple[float, ...]:
    """Who chooses first: for time those with most GPU time to lose; for fairness simply the most sensitive."""
    weight = 1.0 if objective == "fairness" else unit.count * max(job.seconds for job in unit.jobs)
    return (policy.rank(unit.kind) * weight,)


def _clocks(fleet: Fleet, kind: JobClass, gpus: Numbers, objective: Objective) -> Floats:
    if objective == "energy":
        return np.full(gpus.size, thriftiest_clock(fleet, kind, gpus))
    return waiting_clocks(fleet, kind, gpus, float(fleet.work(kind).time[gpus].max()))


def _rows(fleet: Fleet, unit: _Unit, gpus: Numbers, clock: Floats) -> list[Placed]:
    watts = float(fleet.power_at(unit.kind, gpus, clock).sum()) / len(unit.jobs)
    names = tuple(fleet.gpus[gpu] for gpu in gpus)
    several = bool((fleet.node[gpus] != fleet.node[gpus[0]]).any())
    rows = []
    for job in unit.jobs:
        stretch = float(fleet.time_at(job.kind, gpus, clock).max()) * unit.slowdown
        stretch *= job.kind.across if several else 1.0
        beside = next((other.name for other in unit.jobs if other is not job), None)
        rows.append(Placed(job, names, float(clock.min()), beside, job.seconds * stretch, watts, stretch))
    return rows
