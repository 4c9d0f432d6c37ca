"""The default policy: conforming requests are planned first, the others in their slack, decoders in gangs."""

from bisect import bisect_right
from collections.abc import Callable
from math import sqrt
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from cotenant.scheduling.contract import Fairness, Settings
from cotenant.scheduling.correction import CostEstimate
from cotenant.scheduling.job import Job
from cotenant.scheduling.policy import PolicyChoice
from cotenant.scheduling.roster import Roster
from cotenant.scheduling.tenant import TenantState

# --- select waiting jobs that can all be in time: earliest due first, then Moore-Hodgson, then slack for the others

_DUE = attrgetter("planned_due")
_Rank: TypeAlias = tuple[bool, bool, float, int, float]


class Rehearsal(NamedTuple):
    """Jobs in order of due times, with the time of each, and the size of its gangs."""

    jobs: list[Job]
    costs: list[float]
    gang: int


class AheadOfIt(NamedTuple):
    """The planning horizon: start, slots and gang sizes."""

    begin: float
    slots: int
    gang: int


def keep_feasible(jobs: list[Job], ahead: AheadOfIt) -> tuple[list[Job], list[float]]:
    """Jobs that remain when a job is dropped each time another would be late.

    Moore-Hodgson drops the longest; here it is a job of a tenant that recently sent twice its share, preferably
    not begun, of the tenant with the best recent attainment, of its lowest priority, with the most remaining work
    for its worth.
    """
    begin, slots, gang = ahead
    jobs = list(jobs)
    costs = demands(jobs, gang)
    ranks: list[_Rank] = []
    while True:
        end = begin
        for index, job in enumerate(jobs):
            end += costs[index] / slots
            if end > job.planned_due:
                break
        else:
            return jobs, costs
        ranks = ranks or [_rank(waiting) for waiting in jobs]
        victim = max(range(index, -1, -1), key=ranks.__getitem__)  # of equals, the last due
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
    ahead: AheadOfIt,
    limit: Callable[[Job], float],
) -> tuple[list[Job], list[float]]:
    """Admit other jobs wherever they and every job behind them end by their limit.

    ``limit``: a job's due time minus its reserve. An admitted job only has to end by its own due time: the reserve
    protects the others.
    """
    begin, slots, gang = ahead
    limits = [limit(job) for job in jobs]
    for job in others:
        position = bisect_right(jobs, job.planned_due, key=_DUE)
        own = job.planned_due
        if begin + job.rest_s > own and gang < 2:
            continue
        if gang > 1 and job.steps:
            more = [*jobs[:position], job, *jobs[position:]]
            their_limits = [*limits[:position], own, *limits[position:]]
            their_costs = demands(more, gang)
            if _delays_nothing(their_costs, their_limits, costs, position, ahead):
                jobs, limits, costs = more, their_limits, their_costs
            continue
        end = begin + (sum(costs[:position]) + job.plan_s) / slots
        if end > own:
            continue
        for behind in range(position, len(jobs)):
            end += costs[behind] / slots
            if end > limits[behind]:
                break
        else:
            jobs.insert(position, job)
            costs.insert(position, job.plan_s)
            limits.insert(position, own)
    return jobs, costs


def _delays_nothing(
    costs: list[float], limits: list[float], before: list[float], inserted: int, ahead: AheadOfIt
) -> bool:
    """Whether all end by their limits, or no later than before the job at ``inserted`` was there."""
    end = was = ahead.begin
    slots = ahead.slots
    for at, (cost, limit) in enumerate(zip(costs, limits, strict=True)):
        end += cost / slots
        if at != inserted:
            was += before[at - (at > inserted)] / slots
        if end > limit and (at == inserted or end > was):
            return False
    return True


# --- decoders that step together: the device time each member of a gang adds


def demands(jobs: list[Job], size: int) -> list[float]:
    """Planned time of each job, in order of due times, if the first ``size`` decoders of a tenant form a gang."""
    costs = [job.plan_s for job in jobs]
    if size < 2:
        return costs
    gangs: dict[CostEstimate, list[int]] = {}
    for index, job in enumerate(jobs):
        if job.steps:
            members = gangs.setdefault(job.estimate, [])
            if len(members) < min(size, job.estimate.costs.step_curve.largest):
                members.append(index)
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
    end = sum(jobs[member].prefill_s for member in members)
    ends: dict[int, float] = {}
    done, live = 0, len(members)
    for member in sorted(members, key=lambda member: jobs[member].steps):
        job = jobs[member]
        end += (job.steps - done) * step * factors[live - 1]
        ends[member] = end + job.plan_s - job.rest_s
        done = job.steps
        live -= 1
    reached = 0.0
    for member in members:
        costs[member] = max(0.0, ends[member] - reached)
        reached = max(reached, ends[member])


JITTERS = 2.0
"""Standard deviations of the time lost to surprises that are kept free before a conforming deadline."""
CONFORMING_WORTH = 4.0
"""A plan that keeps another conforming request beats a plan that serves up to three others of its size."""
LARGEST_MARGINAL = 0.8
"""Maximum marginal cost of a batch's last member, relative to alone."""
LONGEST_BATCHED = 4 / 3
"""Longest chunk of a batch, in quanta: an urgent request that has to wait for it keeps a third of its slack."""


class SlackStealing:
    """Plans all waiting jobs, and starts the first of the plan."""

    sheds = True

    def __init__(self, settings: Settings, roster: Roster) -> None:
        self._settings = settings
        self._roster = roster
        self.guarantees = settings.fairness is Fairness.SHARES

    def conforms(self, tenant: TenantState, cost_s: float, now: float) -> bool:
        """Whether the tenant's account covers the request; with equal attainment every request conforms."""
        return not self.guarantees or tenant.charge(cost_s, now)

    def choose(self, jobs: list[Job], begin: float) -> PolicyChoice:
        """The first job of the best plan, with those that run beside it."""
        if len(jobs) == 1:
            return PolicyChoice(jobs, "alone", 1)
        horizon = self._roster.speed.horizon(begin)
        for job in jobs:
            job.planned_due = horizon(job.due) if horizon else job.due
        plan = self._best_plan(jobs, begin)
        if not plan.jobs:
            best = min(jobs, key=lambda job: job.rest_s / (job.tenant.spaced_s * len(job.members)))
            return PolicyChoice([best], "nothing fits: best bet", 0)
        first = plan.jobs[0]
        why = "planned" if first.conforming else "slack"
        if first.estimate.step:
            return PolicyChoice(_gang(plan, first), why, len(plan.jobs))
        if not first.begun:
            return PolicyChoice(self._batch(plan, jobs, first, begin), why, len(plan.jobs))
        return PolicyChoice([first], why, len(plan.jobs))

    def _best_plan(self, jobs: list[Job], begin: float) -> Rehearsal:
        conforming = [job for job in jobs if job.conforming]
        others = [] if len(conforming) == len(jobs) else [job for job in jobs if not job.conforming]
        others.sort(key=_slack_order)
        decoders = [job.estimate.costs.step_curve.largest for job in jobs if job.steps]
        gang = min(len(decoders), max(decoders)) if decoders else 1
        best = self._plan(conforming, others, gang, begin)
        if gang == 1:
            return best
        total, most = sum(map(_worth, jobs)), sum(map(_worth, best.jobs))
        while gang > 1 and most < total - 1e-12:
            gang -= 1
            plan = self._plan(conforming, others, gang, begin)
            worth = sum(map(_worth, plan.jobs))
            if worth > most + 1e-12:
                best, most = plan, worth
        return best

    def _plan(self, conforming: list[Job], others: list[Job], gang: int, begin: float) -> Rehearsal:
        ahead = AheadOfIt(begin, self._settings.slots, gang)
        jobs, costs = keep_feasible(conforming, ahead)
        if others:
            jobs, costs = fill_slack(jobs, costs, others, ahead, self._limits(begin))
        return Rehearsal(jobs, costs, gang)

    def _limits(self, begin: float) -> Callable[[Job], float]:
        reserve = self._settings.reserve / self._settings.slots
        expected = []
        for tenant in self._roster.tenants.values():
            tenant.age(begin)
            rate = tenant.expected_rate * reserve
            if rate > 0:
                expected.append((rate, begin + tenant.objective_s))
        margin, cap = self._settings.margin, self._roster.quantum_s
        jitter = JITTERS * sqrt(self._roster.speed.jitter)

        def limit(job: Job) -> float:
            due = job.planned_due
            free = min(cap, margin * job.tenant.objective_s) + jitter * sqrt(max(0.0, due - begin))
            for rate, first_due in expected:
                if due > first_due:
                    free += rate * (due - first_due)
            return due - free

        return limit

    def _batch(self, plan: Rehearsal, jobs: list[Job], first: Job, begin: float) -> list[Job]:
        """The largest batch around the first job that keeps the entire plan in time."""
        estimate = first.estimate
        curve = estimate.costs.curve
        if curve.largest < 2:
            return [first]
        mates = [job for job in jobs if job.estimate is estimate and not job.begun and job is not first]
        if not mates:
            return [first]
        longest = max([chunk.p50_s for chunk in estimate.chunks]) * estimate.speed.factor
        batch = [first]
        for mate in mates:
            size = len(batch) + 1
            if size > curve.largest or curve.factors[size - 1] - curve.factors[size - 2] > LARGEST_MARGINAL:
                break
            if longest * curve.factors[size - 1] > LONGEST_BATCHED * self._roster.quantum_s:
                break
            if self._holds(plan, [*batch, mate], begin):
                batch.append(mate)
        return batch

    def _holds(self, plan: Rehearsal, batch: list[Job], begin: float) -> bool:
        slots = self._settings.slots
        cost = max(job.plan_s for job in batch) * batch[0].estimate.costs.curve.factors[len(batch) - 1]
        end = begin + cost
        if any(end > job.planned_due for job in batch):
            return False
        end = begin + cost / slots
        for job, its_cost in zip(plan.jobs, plan.costs, strict=True):
            if job in batch:
                continue
            end += its_cost / slots
            if end > job.planned_due:
                return False
        return True


def _gang(plan: Rehearsal, first: Job) -> list[Job]:
    """All members step together; a job without its prefill runs that first, so that it can join."""
    members = [job for job in plan.jobs if job.estimate is first.estimate][: plan.gang]
    for job in members:
        if job.stage < job.stages:
            return [job]
    return members


def _worth(job: Job) -> float:
    worth = job.tenant.spaced_s * len(job.members)
    return worth * CONFORMING_WORTH if job.conforming else worth


def _slack_order(job: Job) -> tuple[bool, int, float, float]:
    return (not job.begun, -job.members[0].priority, job.rest_s / (job.tenant.spaced_s * len(job.members)), job.due)
