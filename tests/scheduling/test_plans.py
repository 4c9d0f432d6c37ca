"""Who is kept, dropped and admitted, and the scheduler as a whole."""

import pytest

from cotenant.errors import SchedulingError
from cotenant.scheduling import slack_stealing
from cotenant.scheduling.contract import Contract, Settings
from cotenant.scheduling.costs import TenantCosts, chunk_cost
from cotenant.scheduling.roster import Roster
from cotenant.scheduling.slack_stealing import AheadOfIt, SlackStealing, fill_slack, keep_feasible

from .worker import Worker, encoder, scheduler

# --- plans


class Tenant:
    def __init__(self, floods=False, attained=1.0, spaced_s=1.0, objective_s=10.0):
        self.floods, self.attained, self.spaced_s, self.objective_s = floods, attained, spaced_s, objective_s


class Planned:
    """A job as the planner sees it."""

    def __init__(self, due, plan_s, *, tenant=None, begun=False, priority=0, rest_s=None, conforming=True, members=1):
        self.due = self.planned_due = due
        self.plan_s, self.rest_s, self.steps, self.begun, self.conforming = (
            plan_s,
            plan_s if rest_s is None else rest_s,
            0,
            begun,
            conforming,
        )
        self.tenant = tenant or Tenant()
        self.members = [type("Member", (), {"priority": priority})] * members


ONE = AheadOfIt(0.0, 1, 1)


def kept(*jobs, ahead=ONE):
    chosen, costs = keep_feasible(list(jobs), ahead)
    assert costs == [job.plan_s for job in chosen]
    return [jobs.index(job) for job in chosen]


def test_jobs_that_all_end_in_time_are_kept_even_to_the_moment():
    assert kept(Planned(1, 1), Planned(3, 2)) == [0, 1]
    assert kept(Planned(1, 1), Planned(2.9, 2)) == [0]
    assert kept(Planned(1, 2), Planned(3, 4), ahead=AheadOfIt(0.0, 2, 1)) == [0, 1]
    assert kept(Planned(1, 1), ahead=AheadOfIt(0.1, 1, 1)) == []


@pytest.mark.parametrize(
    ("victim", "other"),
    [
        ({"tenant": Tenant(floods=True), "begun": True}, {}),
        ({}, {"begun": True}),
        ({"tenant": Tenant(attained=0.9)}, {"tenant": Tenant(attained=0.8)}),
        ({"priority": 0}, {"priority": 1}),
        ({"tenant": Tenant(spaced_s=1.0)}, {"tenant": Tenant(spaced_s=2.0)}),
        ({"members": 1}, {"members": 2}),
    ],
)
def test_who_is_dropped(victim, other):
    assert kept(Planned(2, 2, **victim), Planned(3, 2, **other)) == [1]
    assert kept(Planned(2, 2, **other), Planned(3, 2, **victim)) == [0]


def test_of_equals_the_last_due_is_dropped():
    assert kept(Planned(2, 2), Planned(3, 2), Planned(9, 1)) == [0, 2]


def slack(jobs, others, ahead=ONE, reserve=0.0):
    chosen, costs = fill_slack(
        list(jobs), [job.plan_s for job in jobs], list(others), ahead, lambda job: job.planned_due - reserve
    )
    assert costs == [job.plan_s for job in chosen]
    return [(*jobs, *others).index(job) for job in chosen]


def test_others_are_admitted_where_nobody_ends_too_late():
    due = [Planned(4, 2), Planned(8, 2)]
    assert slack(due, [Planned(2, 2)]) == [2, 0, 1]
    assert slack(due, [Planned(2, 2.1)]) == [0, 1]
    assert slack(due, [Planned(4, 2)]) == [0, 2, 1]
    assert slack(due, [Planned(3.9, 2.0)], reserve=0.1) == [0, 1]
    assert slack(due, [Planned(9, 5)]) == [0, 1, 2]
    assert slack(due, [Planned(9, 5.1)]) == [0, 1]
    assert slack(due, [Planned(6, 4.1)]) == [0, 1]
    assert slack(due, [Planned(9, 3), Planned(9.5, 2.5)]) == [0, 1, 2, 3]
    assert slack(due, [Planned(9, 3), Planned(9.4, 2.5)]) == [0, 1, 2]
    assert slack(due, [Planned(1, 0.5, rest_s=1.1)]) == [0, 1]
    assert slack(due, [Planned(4.0, 4)], ahead=AheadOfIt(0.0, 2, 1)) == [0, 2, 1]


def test_reserves_before_a_deadline_grow_with_expected_arrivals():
    contracts = [
        (Contract("a", 2.0), TenantCosts((chunk_cost(0.1),))),
        (Contract("b", 1.0), TenantCosts((chunk_cost(0.1),))),
    ]
    settings = Settings(quantum_s=0.15)
    roster = Roster(contracts, settings, 0.0)
    limit = SlackStealing(settings, roster)._limits(0.0)
    assert limit(Planned(5.0, 1.0, tenant=Tenant(objective_s=1.0))) == pytest.approx(4.9)
    assert limit(Planned(5.0, 1.0, tenant=Tenant(objective_s=9.0))) == pytest.approx(4.85)
    roster.speed.jitter = 0.01
    limit = SlackStealing(settings, roster)._limits(1.0)
    assert limit(Planned(5.0, 1.0, tenant=Tenant(objective_s=1.0))) == pytest.approx(4.9 - 2 * 0.1 * 2)
    assert slack_stealing.CONFORMING_WORTH == 4.0
    assert slack_stealing._worth(Planned(1, 1, tenant=Tenant(spaced_s=3.0), members=2)) == 24.0
    assert slack_stealing._worth(Planned(1, 1, tenant=Tenant(spaced_s=3.0), conforming=False)) == 3.0


def test_the_longest_chunk_is_half_the_tightest_slack():
    contracts = [
        (Contract("a", 2.0), TenantCosts((chunk_cost(0.4),))),
        (Contract("b", 1.0, hard=False), TenantCosts((chunk_cost(1.5),))),
    ]
    roster = Roster(contracts, Settings(), 0.0)
    assert roster.quantum_s == pytest.approx(0.8)
    assert Roster(contracts[1:], Settings(), 0.0).quantum_s == 0.0
    roster.remove("a")
    assert [*roster.tenants] == ["b"]
    with pytest.raises(SchedulingError, match="no tenant a"):
        roster.named("a")
    with pytest.raises(SchedulingError, match="objective of 1000 ms is below the"):
        Roster([(Contract("b", 1.0), TenantCosts((chunk_cost(1.5),)))], Settings(), 0.0)
    assert Roster([(Contract("b", 1.5), TenantCosts((chunk_cost(1.5),)))], Settings(), 0.0).tenants


# --- the scheduler as a whole


def test_requests_of_a_batch_share_its_device_time():
    worker = Worker(scheduler(("a", 1.0, encoder(curve=(1.0, 1.2, 1.4)))))
    for number in range(4):
        worker.arrive(0.0, number, "a")
    worker.run_until_idle()
    (together,) = [chunk.requests for chunk in worker.ran if len(chunk.requests) == 3]
    assert [worker.answers[number].device_s for number in together] == pytest.approx([0.014 / 3] * 3)
    assert sum(answer.device_s for answer in worker.answers.values()) == pytest.approx(0.010 + 0.014)


def test_a_conforming_request_is_planned_before_others_that_are_due_earlier():
    settings = Settings()
    costs = TenantCosts((chunk_cost(0.1),))
    roster = Roster([(Contract("a", 1.0), costs), (Contract("b", 1.0), costs)], settings, 0.0)
    tenant = roster.named("a")
    jobs = [Planned(1.5, 1.0, conforming=False), Planned(1.6, 1.0, conforming=False), Planned(1.7, 1.0)]
    for job in jobs:
        job.tenant, job.estimate = tenant, tenant.estimate
    plan = SlackStealing(settings, roster)._best_plan(jobs, 0.0)
    assert plan.jobs == [jobs[2]]
