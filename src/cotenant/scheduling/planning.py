"""Select waiting jobs that can all be in time: earliest due first, then Moore-Hodgson, then slack for the others."""

from bisect import bisect_right
from collections.abc import Callable
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from cotenant.scheduling.gang import demands
from cotenant.scheduling.job import Job

_DUE = attrgetter("due")
_Rank: TypeAlias = tuple[bool, bool, float, int, float]


class Plan(NamedTuple):
    """Jobs in order of due times, with the time of each, and the size of its gangs."""

    jobs: list[Job]
    costs: list[float]
    gang: int


class Ahead(NamedTuple):
    """The planning horizon: start, slots and gang sizes."""

    begin: float
    slots: int
    gang: int


def keep_feasible(jobs: list[Job], ahead: Ahead) -> tuple[list[Job], list[float]]:
    """Jobs that remain when one is dropped each time another would be late.

    Moore-Hodgson drops the longest; here it is a job of a tenant that recently sent twice its share, of those one that
    hasn't begun, of the tenant with the best recent attainment, of its lowest priority, with the most remaining work
    for its worth.
    """
    begin, slots, gang = ahead
    jobs = list(jobs)
    costs = demands(jobs, gang)
    ranks: list[_Rank] = []
    while True:
        end = begin
        for place, job in enumerate(jobs):
            end += costs[place] / slots
            if end > job.due:
                break
        else:
            return jobs, costs
        ranks = ranks or [_rank(one) for one in jobs]
        victim = max(range(place, -1, -1), key=ranks.__getitem__)  # of equals, the one due last
        del jobs[victim], ranks[victim]
        costs = demands(jobs, gang)


def _rank(job: Job) -> _Rank:
    tenant = job.tenant
    work = job.plan_s / (tenant.spaced_s * len(job.members))
    return tenant.floods, not job.begun, tenant.attained, -job.members[0].priority, work


def fill_slack(
    jobs: list[Job],
    costs: list[float],
    others: list[Job],
    ahead: Ahead,
    limit: Callable[[Job], float],
) -> tuple[list[Job], list[float]]:
    """Admit other jobs wherever they and every job behind them end by their limit.

    ``limit``: a job's due time minus its reserve. An admitted job only has to end by its own due time: the reserve
    protects the others.
    """
    begin, slots, gang = ahead
    limits = [limit(job) for job in jobs]
    for job in others:
        place = bisect_right(jobs, job.due, key=_DUE)
        own = job.due
        if begin + job.rest_s > own and gang < 2:
            continue
        if gang > 1 and job.steps:
            more = [*jobs[:place], job, *jobs[place:]]
            their_limits = [*limits[:place], own, *limits[place:]]
            their_costs = demands(more, gang)
            if _delays_nothing(their_costs, their_limits, costs, place, ahead):
                jobs, limits, costs = more, their_limits, their_costs
            continue
        end = begin + (sum(costs[:place]) + job.plan_s) / slots
        if end > own:
            continue
        for behind in range(place, len(jobs)):
            end += costs[behind] / slots
            if end > limits[behind]:
                break
        else:
            jobs.insert(place, job)
            costs.insert(place, job.plan_s)
            limits.insert(place, own)
    return jobs, costs


def _delays_nothing(costs: list[float], limits: list[float], before: list[float], place: int, ahead: Ahead) -> bool:
    """Whether all end by their limits, or no later than before the job at ``place`` was inserted."""
    end = was = ahead.begin
    slots = ahead.slots
    for at, (cost, limit) in enumerate(zip(costs, limits, strict=True)):
        end += cost / slots
        if at != place:
            was += before[at - (at > place)] / slots
        if end > limit and (at == place or end > was):
            return False
    return True
