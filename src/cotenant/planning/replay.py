"""Replay a policy: jobs arrive, wait, get GPUs, run at the pace of the slowest, and leave."""

import heapq
from collections import deque
from dataclasses import dataclass

import numpy as np

from cotenant.analyse.estimates.intervals import Floats
from cotenant.planning.clocks import waiting_clocks
from cotenant.planning.fleet import Fleet, Numbers
from cotenant.planning.jobs import JobClass, Jobs
from cotenant.planning.policies import Policy

WAITING = 0.3
"""Power above idle of a GPU waiting for others of its job, relative to a working one. An assumption."""


@dataclass(frozen=True, slots=True)
class Replay:
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


def replay(fleet: Fleet, jobs: Jobs, policy: Policy) -> Replay:
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
        for job in sorted(ready, key=lambda one: policy.rank(jobs.classes[jobs.kind[one]])):
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
    return Replay(ends - jobs.arrival_s, makespan, energy + idle_j)


def running_at(fleet: Fleet, kind: JobClass, gpus: Numbers, *, slows_waiting: bool) -> tuple[float, float]:
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
