"""Compare policies on the same jobs, over many random draws of them."""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np

from cotenant.analyse.estimates.intervals import Floats, positive_interval, ratio_interval
from cotenant.planning.clock_choice import waiting_clocks
from cotenant.planning.gpu_fleet import GpuFleet, Numbers
from cotenant.planning.jobs import JobClass, Jobs, draw_jobs
from cotenant.planning.policies import POLICIES, PlacementPolicy
from cotenant.tenancy.interval import Estimate

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
            pace, watts = running_at(fleet, kind, gpus, slows_waiting=policy.slows_waiting_gpus)
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
