"""Place the jobs waiting now: GPUs, neighbours, clocks, and the predicted outcome."""

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
    """A job to place."""

    name: str
    kind: JobClass
    gpus: int
    seconds: float
    """Duration on median GPUs."""
    shareable: bool = False
    """May share its GPU with another job."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A job's placement. Times, power and energy are predicted from measured profiles."""

    job: Job
    gpus: tuple[str, ...]
    clock_mhz: float
    """The lowest clock among its GPUs."""
    beside: str | None
    seconds: float
    power_w: float
    """Total over its GPUs; a shared GPU counts half for each job."""
    stretch: float
    """Predicted time relative to unshared median GPUs."""

    @property
    def energy_j(self) -> float:
        """Power times time."""
        return self.power_w * self.seconds


@dataclass(frozen=True, slots=True)
class Plan:
    """A complete placement."""

    objective: Objective
    placed: tuple[Placed, ...]
    waiting: tuple[Job, ...]
    """Jobs left without a GPU."""
    power_w: float
    """Total over all GPUs, idle ones included."""
    budget_w: float | None
    simulated: bool = False
    """The profiles were computed by a model, not measured."""


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
        jobs: In order of arrival.
        objective: `time`: finish each job soonest; `energy`: use the clock with the least energy; `fairness`: minimise
            the largest slowdown.
        budget_w: Upper limit on the power of all GPUs together.
        slowdowns: Measured slowdowns of pairs by name; missing ones are estimated.

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
    """A unit of placement: one job, or two that share a GPU."""

    jobs: tuple[Job, ...]
    slowdown: float = 1.0

    @property
    def kind(self) -> JobClass:
        """Core share of the job that is most sensitive to a slow GPU."""
        return max((job.kind for job in self.jobs), key=lambda kind: kind.core_share)

    @property
    def count(self) -> int:
        return self.jobs[0].gpus


def _units(
    fleet: Fleet, jobs: Sequence[Job], slowdowns: Mapping[tuple[str, str], float]
) -> tuple[list[_Unit], list[Job]]:
    """Take jobs in order while GPUs last, pairing shareable jobs only as far as needed to run them all."""

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
    """Order of choice: for time, the most GPU time at stake first; for fairness, the most sensitive first."""
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
