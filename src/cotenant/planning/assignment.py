"""Place the jobs waiting now: GPUs, neighbours, clocks, and the predicted outcome."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np

from cotenant.analyse.estimates import Floats
from cotenant.errors import CotenantError
from cotenant.planning.gpu_fleet import GpuFleet, Numbers
from cotenant.planning.slack import Slack
from cotenant.tenancy.jobs import JobClass

Objective = Literal["time", "energy", "fairness"]


@dataclass(frozen=True, slots=True)
class WaitingJob:
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

    job: WaitingJob
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
class JobPlan:
    """A complete placement."""

    objective: Objective
    placed: tuple[Placed, ...]
    waiting: tuple[WaitingJob, ...]
    """Jobs left without a GPU."""
    power_w: float
    """Total over all GPUs, idle ones included."""
    budget_w: float | None
    simulated: bool = False
    """The profiles were computed by a model, not measured."""


def plan(
    fleet: GpuFleet,
    jobs: Sequence[WaitingJob],
    *,
    objective: Objective = "time",
    budget_w: float | None = None,
) -> JobPlan:
    """Place jobs on a fleet.

    Args:
        fleet: The GPUs, as measured.
        jobs: In order of arrival.
        objective: `time`: finish each job soonest; `energy`: use the clock with the least energy; `fairness`: minimise
            the largest slowdown.
        budget_w: Upper limit on the power of all GPUs together.

    Raises:
        CotenantError: The budget can't be met.
    """
    units, waiting = _units(fleet, jobs)
    policy = Slack(fleet)
    free = np.ones(len(fleet), dtype=bool)
    chosen: dict[int, Numbers] = {}
    for number in sorted(range(len(units)), key=lambda index: _order(policy, units[index], objective)):
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
    return JobPlan(objective, tuple(rows), tuple(waiting), drawn, budget_w, fleet.simulated)


@dataclass(frozen=True, slots=True)
class _Unit:
    """A unit of placement: a job, or two that share a GPU."""

    jobs: tuple[WaitingJob, ...]
    slowdown: float = 1.0

    @property
    def kind(self) -> JobClass:
        """Core share of the job that is most sensitive to a slow GPU."""
        return max((job.kind for job in self.jobs), key=lambda kind: kind.core_share)

    @property
    def count(self) -> int:
        return self.jobs[0].gpus


def _units(fleet: GpuFleet, jobs: Sequence[WaitingJob]) -> tuple[list[_Unit], list[WaitingJob]]:
    """Take jobs in order while GPUs last, pairing shareable jobs only as far as needed to run them all."""

    def slowdown(job: WaitingJob, other: WaitingJob) -> float:
        return estimated_slowdown(job.kind, other.kind)

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
            served |= {id(member) for member in unit.jobs}
            left -= unit.count
    return units, [job for job in jobs if id(job) not in served]


def _order(policy: Slack, unit: _Unit, objective: Objective) -> tuple[float, ...]:
    """Order of choice: for time, the most GPU time at stake first; for fairness, the most sensitive first."""
    weight = 1.0 if objective == "fairness" else unit.count * max(job.seconds for job in unit.jobs)
    return (policy.rank(unit.kind) * weight,)


def _clocks(fleet: GpuFleet, kind: JobClass, gpus: Numbers, objective: Objective) -> Floats:
    if objective == "energy":
        return np.full(gpus.size, thriftiest_clock(fleet, kind, gpus))
    return waiting_clocks(fleet, kind, gpus, float(fleet.work(kind).time[gpus].max()))


def _rows(fleet: GpuFleet, unit: _Unit, gpus: Numbers, clock: Floats) -> list[Placed]:
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


# --- choose which jobs share a GPU when there are more jobs than GPUs

T = TypeVar("T")


def estimated_slowdown(kind: JobClass, other: JobClass) -> float:
    """Estimate a pair's slowdown by a rule: their demands on cores and on memory add up.

    Two matrix products share the cores and take twice as long; a product beside a copy hardly notices it.
    """
    cores = kind.core_share * min(kind.activity, 1.0) + other.core_share * min(other.activity, 1.0)
    memory = (1 - kind.core_share) + (1 - other.core_share)
    return max(1.0, cores, memory)


def pair_up(items: Sequence[T], pairs: int, cost: Callable[[T, T], float]) -> list[tuple[T, T]]:
    """``pairs`` disjoint pairs with a low total cost: cheapest first, then improved by exchanges."""
    assert 2 * pairs <= len(items)
    n = len(items)
    costs = {(i, j): cost(items[i], items[j]) for i in range(n) for j in range(i + 1, n)}
    taken: set[int] = set()
    chosen: list[tuple[int, int]] = []
    for i, j in sorted(costs, key=lambda pair: (costs[pair], pair)):
        if len(chosen) == pairs:
            break
        if not {i, j} & taken:
            chosen.append((i, j))
            taken |= {i, j}
    _exchange(chosen, costs)
    return [(items[i], items[j]) for i, j in chosen]


def _exchange(chosen: list[tuple[int, int]], costs: dict[tuple[int, int], float]) -> None:
    """Swap partners between two pairs while that lowers the cost."""

    def of(i: int, j: int) -> float:
        return costs[min(i, j), max(i, j)]

    improved = True
    while improved:
        improved = False
        for first in range(len(chosen)):
            for second in range(first + 1, len(chosen)):
                (a, b), (c, d) = chosen[first], chosen[second]
                now = of(a, b) + of(c, d)
                for left, right in (((a, c), (b, d)), ((a, d), (b, c))):
                    if of(*left) + of(*right) < now - 1e-12:
                        chosen[first], chosen[second] = left, right
                        improved = True
                        break
                if improved:
                    break
            if improved:
                break


# --- clocks: lower for GPUs that would only wait, under a power budget, or to save energy


def waiting_clocks(fleet: GpuFleet, kind: JobClass, gpus: Numbers, slowest: float) -> Floats:
    """The lowest clock at which each GPU still finishes with the slowest, but not below the knee of its power curve.

    Below the knee the voltage no longer falls: a slower clock only prolongs the idle power.
    """
    work = fleet.work(kind)
    clocks = work.clock_mhz[gpus]
    if kind.core_share == 0:
        return clocks
    pace = fleet.relative_time[gpus] * fleet.clock_mhz[gpus]
    left = slowest * work.middle - (1 - kind.core_share)
    needed = kind.core_share * pace / np.maximum(left, 1e-9)
    return np.asarray(np.clip(needed, np.minimum(fleet.kind.curve.knee_mhz, clocks), clocks))


def thriftiest_clock(fleet: GpuFleet, kind: JobClass, gpus: Numbers) -> float:
    """The common clock at which these GPUs use the least energy for the same work."""
    top = float(fleet.work(kind).clock_mhz[gpus].min())
    clocks = np.linspace(min(fleet.kind.lowest_mhz, top), top, 64)
    energy = [
        float(fleet.power_at(kind, gpus, np.full(gpus.size, clock)).sum())
        * float(fleet.time_at(kind, gpus, np.full(gpus.size, clock)).max())
        for clock in clocks
    ]
    return float(clocks[int(np.argmin(energy))])


def clocks_within(
    fleet: GpuFleet, placed: list[tuple[JobClass, Numbers]], clocks: list[Floats], budget_w: float
) -> list[Floats]:
    """Lower clocks until all jobs fit a power budget, where a watt costs the least time first.

    Raises:
        CotenantError: The budget is exceeded even at the lowest clocks.
    """
    lowered = [clock.copy() for clock in clocks]
    step = 15.0
    idle = fleet.kind.idle_w * (len(fleet) - sum(gpus.size for _, gpus in placed))

    def drawn() -> list[float]:
        return [
            float(fleet.power_at(kind, gpus, clock).sum()) for (kind, gpus), clock in zip(placed, lowered, strict=True)
        ]

    watts = drawn()
    while sum(watts) + idle > budget_w:
        best, most = None, -1.0
        for number, (kind, gpus) in enumerate(placed):
            slower = np.maximum(lowered[number] - step, np.minimum(fleet.kind.lowest_mhz, lowered[number]))
            saved = watts[number] - float(fleet.power_at(kind, gpus, slower).sum())
            lost = float(fleet.time_at(kind, gpus, slower).max() - fleet.time_at(kind, gpus, lowered[number]).max())
            worth = saved / (lost * gpus.size + 1e-6)
            if saved > 1e-6 and worth > most:
                best, most = number, worth
        if best is None:
            idling = f" ({idle:,.0f} W of that by idle GPUs)" if idle else ""
            raise CotenantError(
                f"these jobs draw at least {sum(watts) + idle:,.0f} W{idling}, "
                f"more than the budget of {budget_w:,.0f} W",
                hint="raise the power budget or run fewer jobs at once",
            )
        kind, gpus = placed[best]
        lowered[best] = np.maximum(lowered[best] - step, np.minimum(fleet.kind.lowest_mhz, lowered[best]))
        watts[best] = float(fleet.power_at(kind, gpus, lowered[best]).sum())
    return lowered
