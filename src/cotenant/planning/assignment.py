"""Place the jobs waiting now: GPUs, neighbours, clocks, and the predicted outcome."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from cotenant import opening
from cotenant.analyse.estimates.intervals import Floats
from cotenant.errors import StudyError
from cotenant.planning.clock_choice import clocks_within, thriftiest_clock, waiting_clocks
from cotenant.planning.gpu_fleet import GpuFleet, Numbers
from cotenant.planning.jobs import CLASSES, JobClass
from cotenant.planning.policies import Slack
from cotenant.tenancy.document import NotYaml, read
from cotenant.tenancy.values import Seconds
from cotenant.text import amount

Objective = Literal["time", "energy", "fairness"]
OBJECTIVES: tuple[Objective, ...] = ("time", "energy", "fairness")


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
    slowdowns: Mapping[tuple[str, str], float] | None = None,
) -> JobPlan:
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


def _units(
    fleet: GpuFleet, jobs: Sequence[WaitingJob], slowdowns: Mapping[tuple[str, str], float]
) -> tuple[list[_Unit], list[WaitingJob]]:
    """Take jobs in order while GPUs last, pairing shareable jobs only as far as needed to run them all."""

    def slowdown(job: WaitingJob, other: WaitingJob) -> float:
        known = slowdowns.get((job.name, other.name), slowdowns.get((other.name, job.name)))
        return estimated_slowdown(job.kind, other.kind) if known is None else known

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


# --- A YAML file of jobs to place, each with its GPUs, duration and class of work

_KNOWN = {kind.name: kind for kind in CLASSES}
_HINT = "e.g. {name: train, class: bert, gpus: 4, time: 2h}"


class _JobEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    name: str = Field(min_length=1)
    kind: str | None = Field(default=None, alias="class")
    core_share: float | None = Field(default=None, ge=0, le=1)
    activity: float = Field(default=1.0, gt=0, le=1.5)
    across: float = Field(default=1.0, ge=1)
    gpus: int = Field(default=1, ge=1)
    time: Seconds
    share: bool = False

    @model_validator(mode="after")
    def _one_kind(self) -> "_JobEntry":
        if (self.kind is None) == (self.core_share is None):
            raise ValueError("either `class` or `core_share` is required")
        if self.kind is not None and self.kind not in _KNOWN:
            raise ValueError(f"unknown class {self.kind!r}; expected one of {', '.join(_KNOWN)}")
        return self

    def job(self) -> WaitingJob:
        if self.kind is not None:
            kind = _KNOWN[self.kind]
        else:
            kind = JobClass(self.name, self.core_share or 0.0, self.activity, self.across)
        return WaitingJob(self.name, kind, self.gpus, self.time, self.share)


def read_jobs(path: Path) -> tuple[WaitingJob, ...]:
    """Read the jobs in a file.

    Raises:
        StudyError: The file can't be read, or a job is invalid; names the line and what was expected.
    """
    try:
        tree = read(opening.read_text(path), str(path))
    except OSError as error:
        hint = f"write a YAML list of jobs, {_HINT}"
        raise StudyError(f"{path} can't be read: {opening.why(error)}", hint=hint) from None
    except UnicodeDecodeError:
        raise StudyError(f"{path} is not a text file", hint=_HINT) from None
    except NotYaml as error:
        raise StudyError(f"{path}:{error.line}: {error}", hint=_HINT) from None
    above = ("jobs",) if isinstance(tree.data, dict) else ()
    entries = tree.data.get("jobs") if isinstance(tree.data, dict) else tree.data
    if not isinstance(entries, list) or not entries:
        raise StudyError(f"{path} is not a list of jobs", hint=_HINT)
    jobs: dict[str, WaitingJob] = {}
    problems = list(tree.problems)
    for number, entry in enumerate(entries):
        location = (*above, number)
        try:
            job = _JobEntry.model_validate(entry).job()
        except ValidationError as error:
            details = error.errors(include_url=False)
            problems += [
                ((*location, *detail["loc"]), detail["msg"].removeprefix("Value error, ")) for detail in details
            ]
            continue
        if job.name in jobs:
            problems.append((location, f"duplicate job name {job.name!r}"))
        jobs[job.name] = job
    if problems:
        sentences = tuple(tree.places.describe(location, sentence) for location, sentence in problems)
        raise StudyError(f"{path} has {amount(len(problems), 'problem')}", problems=sentences, hint=_HINT)
    return tuple(jobs.values())
