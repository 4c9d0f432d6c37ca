"""The default policy: conforming requests are planned first, the others in their slack, decoders in gangs."""

from collections.abc import Callable

from cotenant.scheduling.contract import Fairness
from cotenant.scheduling.job import Job
from cotenant.scheduling.planning import Ahead, Plan, fill_slack, keep_feasible
from cotenant.scheduling.policy import Choice
from cotenant.scheduling.roster import Roster
from cotenant.scheduling.settings import Settings
from cotenant.scheduling.tenant import Tenant

CONFORMING_WORTH = 4.0
"""A plan that keeps one more conforming request beats one that serves up to three others of its size."""
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

    def conforms(self, tenant: Tenant, cost_s: float, now: float) -> bool:
        """Whether the tenant's account covers the request; with equal attainment every request conforms."""
        return not self.guarantees or tenant.charge(cost_s, now)

    def choose(self, jobs: list[Job], begin: float) -> Choice:
        """The first job of the best plan, with those that run beside it."""
        if len(jobs) == 1:
            return Choice(jobs, "alone", 1)
        plan = self._best_plan(jobs, begin)
        if not plan.jobs:
            best = min(jobs, key=lambda job: job.rest_s / (job.tenant.spaced_s * len(job.members)))
            return Choice([best], "nothing fits: best bet", 0)
        first = plan.jobs[0]
        why = "planned" if first.conforming else "slack"
        if first.estimate.step:
            return Choice(_gang(plan, first), why, len(plan.jobs))
        if not first.begun:
            return Choice(self._batch(plan, jobs, first, begin), why, len(plan.jobs))
        return Choice([first], why, len(plan.jobs))

    def _best_plan(self, jobs: list[Job], begin: float) -> Plan:
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

    def _plan(self, conforming: list[Job], others: list[Job], gang: int, begin: float) -> Plan:
        ahead = Ahead(begin, self._settings.slots, gang)
        jobs, costs = keep_feasible(conforming, ahead)
        if others:
            jobs, costs = fill_slack(jobs, costs, others, ahead, self._limits(begin))
        return Plan(jobs, costs, gang)

    def _limits(self, begin: float) -> Callable[[Job], float]:
        reserve = self._settings.reserve / self._settings.slots
        expected = []
        for tenant in self._roster.tenants.values():
            tenant.age(begin)
            rate = tenant.expected_rate * reserve
            if rate > 0:
                expected.append((rate, begin + tenant.objective_s))
        margin, cap = self._settings.margin, self._roster.quantum_s

        def limit(job: Job) -> float:
            due = job.due
            free = min(cap, margin * job.tenant.objective_s)
            for rate, first_due in expected:
                if due > first_due:
                    free += rate * (due - first_due)
            return due - free

        return limit

    def _batch(self, plan: Plan, jobs: list[Job], first: Job, begin: float) -> list[Job]:
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

    def _holds(self, plan: Plan, batch: list[Job], begin: float) -> bool:
        slots = self._settings.slots
        cost = max(job.plan_s for job in batch) * batch[0].estimate.costs.curve.factors[len(batch) - 1]
        end = begin + cost
        if any(end > job.due for job in batch):
            return False
        end = begin + cost / slots
        for job, its_cost in zip(plan.jobs, plan.costs, strict=True):
            if job in batch:
                continue
            end += its_cost / slots
            if end > job.due:
                return False
        return True


def _gang(plan: Plan, first: Job) -> list[Job]:
    """All members step together; one without its prefill does that first, so that it can join."""
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
