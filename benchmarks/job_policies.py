"""Policies that place jobs on GPUs, published ones beside ours, replayed on the same random jobs.

    python -m benchmarks.job_policies [DRAWS] [JOBS] [LOAD]

The GPUs are those of the database under SGEMM. Prints one JSON document: ratios to ours, with intervals over the draws.
"""

import heapq
import json
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Protocol

import numpy as np

from cotenant.analyse.estimates.intervals import Floats, positive_interval, ratio_interval
from cotenant.planning.assignment import waiting_clocks
from cotenant.planning.gpu_fleet import GpuFleet, Numbers
from cotenant.planning.slack import Free, Nodes, Slack
from cotenant.tenancy.interval import Estimate
from cotenant.tenancy.jobs import CLASSES, JobClass

# --- random jobs


@dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs as columns, in order of arrival."""

    classes: tuple[JobClass, ...]
    kind: Numbers
    gpus: Numbers
    arrival_s: Floats
    seconds: Floats
    """Duration on median GPUs within a node."""

    def __len__(self) -> int:
        return int(self.kind.size)


SIZES, SIZE_WEIGHTS = (1, 2, 4, 8, 16), (0.45, 0.2, 0.2, 0.1, 0.05)
MEDIAN_S, SPREAD = 3600.0, 1.0


def draw_jobs(
    count: int, fleet_size: int, *, load: float = 0.9, seed: int = 0, classes: tuple[JobClass, ...] = CLASSES
) -> Jobs:
    """Draw synthetic jobs: sizes by `SIZE_WEIGHTS`, lognormal lengths around an hour, Poisson arrivals.

    Args:
        count: Number of jobs.
        fleet_size: Number of GPUs they run on.
        load: GPU time requested over GPU time available, while jobs arrive.
        seed: The same seed gives the same jobs.
        classes: Classes of work, equally likely.
    """
    rng = np.random.default_rng(seed)
    gpus = np.minimum(rng.choice(SIZES, count, p=SIZE_WEIGHTS), fleet_size)
    seconds = MEDIAN_S * np.exp(SPREAD * rng.standard_normal(count))
    rate = load * fleet_size / float((gpus * seconds).mean())
    arrival = np.cumsum(rng.exponential(1 / rate, count))
    return Jobs(classes, rng.integers(len(classes), size=count), gpus.astype(np.int64), arrival, seconds)


# --- policies


class PlacementPolicy(Protocol):
    """Places jobs one at a time on free GPUs."""

    def rank(self, kind: JobClass) -> float:
        """Among jobs that could start now, the lowest rank chooses first; ties in order of arrival."""
        ...

    def choose(self, kind: JobClass, count: int, free: Free) -> Numbers:
        """Choose ``count`` of the free GPUs; enough are free."""
        ...


class Random:
    """Any free GPUs."""

    def __init__(self, fleet: GpuFleet, seed: int = 0) -> None:
        del fleet
        self._rng = np.random.default_rng(seed)

    def rank(self, kind: JobClass) -> float:
        """First come, first served."""
        del kind
        return 0.0

    def choose(self, kind: JobClass, count: int, free: Free) -> Numbers:
        """Drawn evenly."""
        del kind
        return np.asarray(self._rng.choice(np.flatnonzero(free), count, replace=False))


class Packed:
    """As few nodes as possible; any GPUs within a node."""

    def __init__(self, fleet: GpuFleet, seed: int = 0) -> None:
        del seed
        self._nodes = CrowdedNodes(fleet)

    def rank(self, kind: JobClass) -> float:
        """First come, first served."""
        del kind
        return 0.0

    def choose(self, kind: JobClass, count: int, free: Free) -> Numbers:
        """The node left with the fewest free GPUs, else the emptiest nodes together."""
        del kind
        return self._nodes.packed(count, free)


class PmFirst:
    """The fastest free GPUs on any node (PM-First of PAL)."""

    def __init__(self, fleet: GpuFleet, seed: int = 0) -> None:
        del seed
        self._fleet = fleet

    def rank(self, kind: JobClass) -> float:
        """First come, first served."""
        del kind
        return 0.0

    def choose(self, kind: JobClass, count: int, free: Free) -> Numbers:
        """The first of the list."""
        order = self._fleet.work(kind).order
        return order[free[order]][:count]


class Pal:
    """The product of a cluster's slowdown and the cost of leaving a node, lowest first (PAL)."""

    def __init__(self, fleet: GpuFleet, seed: int = 0) -> None:
        del seed
        self._fleet, self._nodes = fleet, CrowdedNodes(fleet)
        self._factors: dict[JobClass, Floats] = {}

    def rank(self, kind: JobClass) -> float:
        """The most variable classes choose first."""
        return -float(np.ptp(self._factor(kind)))

    def choose(self, kind: JobClass, count: int, free: Free) -> Numbers:
        """Within a node if that is no slower than the fastest clusters across nodes."""
        factor = self._factor(kind)
        anywhere = self._nodes.by_factor(factor, count, free)
        if count > self._nodes.size:
            return anywhere
        within = self._nodes.best_within(factor, count, free)
        if within is None:
            return anywhere
        spread = kind.across if self._nodes.several(anywhere) else 1.0
        return within if factor[within].max() <= factor[anywhere].max() * spread else anywhere

    def _factor(self, kind: JobClass) -> Floats:
        if kind not in self._factors:
            self._factors[kind] = cluster_factors(self._fleet.work(kind).time)
        return self._factors[kind]


class CrowdedNodes(Nodes):
    """Choices by how many GPUs of a node are free."""

    def several(self, gpus: Numbers) -> bool:
        """Whether they span several nodes."""
        return bool((self._of[gpus] != self._of[gpus[0]]).any())

    def packed(self, count: int, free: Free) -> Numbers:
        """The node with the fewest free GPUs that suffices; else the nodes with the most."""
        left = self.left(free)
        enough = np.flatnonzero(left >= count)
        if enough.size:
            node = enough[left[enough].argmin()]
            return np.flatnonzero(free & (self._of == node))[:count]
        candidates = np.flatnonzero(free)
        crowd = -left[self._of[candidates]]
        return candidates[np.lexsort((self._of[candidates], crowd))][:count]

    def by_factor(self, factor: Floats, count: int, free: Free) -> Numbers:
        """The lowest factors; ties go to the node with the closest number of free GPUs."""
        candidates = np.flatnonzero(free)
        fit = np.abs(self.left(free)[self._of[candidates]] - count)
        return candidates[np.lexsort((fit, factor[candidates]))][:count]


POLICIES: dict[str, Callable[[GpuFleet, int], PlacementPolicy]] = {
    "random": Random,
    "packed": Packed,
    "pm-first": PmFirst,
    "pal": Pal,
    "slack": lambda fleet, _: Slack(fleet),
}
"""Policies by name; `slack` is ours."""


# --- PAL's view of a fleet (SC'24): GPUs in clusters of similar speed, their number chosen by silhouette

FEWEST, MOST = 2, 10
OUTLIER_SIGMAS = 3.0
_ROUNDS = 50
_SAMPLE = 1000
"""Sample size for large fleets, since a silhouette needs all pairs."""


def cluster_factors(times: Floats) -> Floats:
    """Each GPU's cluster centre over the median centre; outliers are clusters of their own."""
    outlier = times > times.mean() + OUTLIER_SIGMAS * times.std()
    inside = times[~outlier]
    centres = _best(inside)
    labels = np.abs(inside[:, None] - centres[None, :]).argmin(axis=1)
    factors = times.copy()
    factors[~outlier] = centres[labels]
    return np.asarray(factors / np.median(np.concatenate((centres, times[outlier]))))


def _best(values: Floats) -> Floats:
    distinct = np.unique(values)
    if distinct.size <= FEWEST:
        return distinct
    tried = [_means(values, count) for count in range(FEWEST, min(MOST, distinct.size - 1) + 1)]
    return max(tried, key=lambda centres: silhouette(values, centres))


def _means(values: Floats, count: int) -> Floats:
    """One-dimensional k-means starting from even quantiles; deterministic."""
    centres = np.unique(np.quantile(values, (np.arange(count) + 0.5) / count))
    for _ in range(_ROUNDS):
        labels = np.abs(values[:, None] - centres[None, :]).argmin(axis=1)
        counts = np.bincount(labels, minlength=centres.size)
        moved = np.bincount(labels, values, centres.size)[counts > 0] / counts[counts > 0]
        if moved.size == centres.size and np.allclose(moved, centres):
            break
        centres = moved
    return np.asarray(centres)


def silhouette(values: Floats, centres: Floats) -> float:
    """Mean silhouette of one-dimensional values, each with its nearest centre."""
    values = np.sort(values)[:: max(1, values.size // _SAMPLE)]
    labels = np.abs(values[:, None] - centres[None, :]).argmin(axis=1)
    apart = np.abs(values[:, None] - values[None, :])
    member: Free = labels[:, None] == np.unique(labels)[None, :]
    counts = member.sum(axis=0)
    to_cluster = apart @ member / np.maximum(counts, 1)
    own = member.argmax(axis=1)
    row = np.arange(values.size)
    inside = to_cluster[row, own] * counts[own] / np.maximum(counts[own] - 1, 1)
    to_cluster[row, own] = np.inf
    outside = to_cluster.min(axis=1)
    alone = counts[own] == 1
    widest = np.maximum(inside, outside)
    undefined = alone | (widest == 0) | ~np.isfinite(widest)
    score = np.where(undefined, 0.0, (outside - inside) / np.where(undefined, 1.0, widest))
    return float(score.mean())


# --- the comparison

OURS = "slack"


@dataclass(frozen=True, slots=True)
class PolicyComparison:
    """A policy over all draws. Ratios are relative to our policy on the same jobs: above 1 is worse."""

    policy: str
    completion_s: Estimate
    makespan_s: Estimate
    energy_j: Estimate
    completion_ratio: Estimate
    makespan_ratio: Estimate
    energy_ratio: Estimate
    _: KW_ONLY
    simulated: bool = False
    """The GPUs' profiles were computed by a model, not measured."""


def compare(
    fleet: GpuFleet,
    *,
    count: int,
    seeds: Sequence[int],
    load: float,
    policies: Sequence[str] = tuple(POLICIES),
    progress: Callable[[int], None] = lambda _: None,
) -> tuple[PolicyComparison, ...]:
    """Replay every policy on every draw.

    Args:
        fleet: The GPUs.
        count: Jobs per draw.
        seeds: A seed per draw.
        load: GPU time requested over GPU time available.
        policies: By name.
        progress: Called after each draw with the number done.
    """
    names = list(dict.fromkeys([*policies, OURS]))
    figures = np.empty((len(seeds), len(names), 3))
    for row, seed in enumerate(seeds):
        jobs = draw_jobs(count, len(fleet), load=load, seed=seed)
        for column, name in enumerate(names):
            outcome = replay(fleet, jobs, POLICIES[name](fleet, seed))
            figures[row, column] = outcome.mean_completion_s, outcome.makespan_s, outcome.energy_j
        progress(row + 1)
    logs = np.log(figures)
    ours = logs[:, names.index(OURS)]
    compared = tuple(
        PolicyComparison(
            name,
            *(positive_interval(figures[:, column, measure]) for measure in range(3)),
            *(ratio_interval(logs[:, column, measure] - ours[:, measure]) for measure in range(3)),
        )
        for column, name in enumerate(names)
    )
    return tuple(replace(policy, simulated=fleet.simulated) for policy in compared)


# --- replay a policy: jobs arrive, wait, get GPUs, run at the pace of the slowest, and leave

WAITING = 0.3
"""Power above idle of a GPU waiting for others of its job, relative to a working GPU. An assumption."""


@dataclass(frozen=True, slots=True)
class JobReplay:
    """How it went."""

    completion_s: Floats
    """Seconds from arrival to completion, by job."""
    makespan_s: float
    energy_j: float
    """Total over all GPUs until the last job ended, idle ones included."""

    @property
    def mean_completion_s(self) -> float:
        """Of all jobs."""
        return float(self.completion_s.mean())


def replay(fleet: GpuFleet, jobs: Jobs, policy: PlacementPolicy) -> JobReplay:
    """Jobs start in order of arrival; those able to start at the same moment may be placed in another order."""
    free = np.ones(len(fleet), dtype=bool)
    available = len(fleet)
    ends = np.zeros(len(jobs))
    busy_gpu_s = energy = now = 0.0
    running: list[tuple[float, int, Numbers]] = []
    queue: deque[int] = deque()
    coming = 0
    while coming < len(jobs) or queue or running:
        arrival = jobs.arrival_s[coming] if coming < len(jobs) else np.inf
        if running and running[0][0] <= arrival:
            now, _, gpus = heapq.heappop(running)
            free[gpus] = True
            available += gpus.size
        else:
            now = float(arrival)
            queue.append(coming)
            coming += 1
        ready = []
        while queue and jobs.gpus[queue[0]] <= available:
            available -= int(jobs.gpus[queue[0]])
            ready.append(queue.popleft())
        for job in sorted(ready, key=lambda index: policy.rank(jobs.classes[jobs.kind[index]])):
            kind = jobs.classes[jobs.kind[job]]
            gpus = policy.choose(kind, int(jobs.gpus[job]), free)
            pace, watts = running_at(fleet, kind, gpus, slows_waiting=isinstance(policy, Slack))
            seconds = float(jobs.seconds[job]) * pace
            free[gpus] = False
            energy += watts * seconds
            busy_gpu_s += gpus.size * seconds
            ends[job] = now + seconds
            heapq.heappush(running, (now + seconds, job, gpus))
    makespan = float(ends.max(initial=0.0))
    idle_j = fleet.kind.idle_w * (len(fleet) * makespan - busy_gpu_s)
    return JobReplay(ends - jobs.arrival_s, makespan, energy + idle_j)


def running_at(fleet: GpuFleet, kind: JobClass, gpus: Numbers, *, slows_waiting: bool) -> tuple[float, float]:
    """A job's time relative to median GPUs within a node, and the mean total power of its GPUs."""
    work = fleet.work(kind)
    times, powers = work.time[gpus], work.power_w[gpus]
    slowest = float(times.max())
    if slows_waiting and gpus.size > 1:
        clocks = waiting_clocks(fleet, kind, gpus, slowest)
        times, powers = fleet.time_at(kind, gpus, clocks), fleet.power_at(kind, gpus, clocks)
    at_work = np.minimum(times / slowest, 1.0)
    watts = float((fleet.kind.idle_w + (powers - fleet.kind.idle_w) * (at_work + WAITING * (1 - at_work))).sum())
    several = bool((fleet.node[gpus] != fleet.node[gpus[0]]).any())
    return slowest * (kind.across if several else 1.0), watts


FIRST_SEED = 1
"""Draws from 1000 on were used to tune our policy's prices; these were not."""


def main(draws: int = 20, jobs: int = 2000, load: float = 0.9) -> None:
    """Every policy on the GPUs of the database."""
    from cotenant.paths import home_of
    from cotenant.planning.inputs import measured_fleet

    seeds = range(FIRST_SEED, FIRST_SEED + draws)
    compared = compare(measured_fleet("sgemm", home_of(None)), count=jobs, seeds=seeds, load=load)
    rows = [
        {"policy": row.policy, "simulated": row.simulated}
        | {
            name: [figure.est, figure.lo, figure.hi]
            for name in ("completion_ratio", "makespan_ratio", "energy_ratio")
            for figure in (getattr(row, name),)
        }
        for row in compared
    ]
    print(json.dumps({"draws": draws, "jobs": jobs, "load": load, "policies": rows}, indent=2))


if __name__ == "__main__":
    given = sys.argv[1:]
    main(*map(int, given[:2]), *map(float, given[2:]))
