"""Decoders that step together: the device time each member of a gang adds.

A decode step of k members costs far less than k steps, so the k-th member is planned at its marginal cost: prefills
first, then joint steps, with members leaving as they end.
"""

from cotenant.scheduling.correction import CostEstimate
from cotenant.scheduling.job import Job


def demands(jobs: list[Job], size: int) -> list[float]:
    """Planned time of each job, in order of due times, if the first ``size`` decoders of a tenant form a gang."""
    costs = [job.plan_s for job in jobs]
    if size < 2:
        return costs
    gangs: dict[CostEstimate, list[int]] = {}
    for place, job in enumerate(jobs):
        if job.steps:
            members = gangs.setdefault(job.estimate, [])
            if len(members) < min(size, job.estimate.costs.step_curve.largest):
                members.append(place)
    for members in gangs.values():
        if len(members) > 1:
            _share_steps(jobs, members, costs)
    return costs


def _share_steps(jobs: list[Job], members: list[int], costs: list[float]) -> None:
    """Replace the members' costs by their marginal costs: demand must be cumulative in order of due times."""
    estimate = jobs[members[0]].estimate
    assert estimate.step is not None
    step = estimate.step.p50_s * estimate.speed.factor
    factors = estimate.costs.step_curve.factors
    end = sum(jobs[place].prefill_s for place in members)
    ends: dict[int, float] = {}
    done, live = 0, len(members)
    for place in sorted(members, key=lambda place: jobs[place].steps):
        job = jobs[place]
        end += (job.steps - done) * step * factors[live - 1]
        ends[place] = end + job.plan_s - job.rest_s
        done = job.steps
        live -= 1
    reached = 0.0
    for place in members:
        costs[place] = max(0.0, ends[place] - reached)
        reached = max(reached, ends[place])
