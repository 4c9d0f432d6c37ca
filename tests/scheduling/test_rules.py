"""The rules of contracts, costs, corrections and queues, worked by hand or against a plain reference."""

import math
import random

import pytest

from cotenant.errors import SchedulingError
from cotenant.scheduling import correction, slack_stealing
from cotenant.scheduling.contract import Contract, ServiceClass, Settings, settle_shares
from cotenant.scheduling.correction import CostEstimate, DeviceSpeed
from cotenant.scheduling.costs import BatchCurve, ChunkCost, TenantCosts, chunk_cost, some_batches
from cotenant.scheduling.roster import Roster
from cotenant.scheduling.slack_stealing import AheadOfIt, SlackStealing, fill_slack, keep_feasible
from cotenant.scheduling.waiting import MOST_IN_BLOCK, VIEW, Waiting

from .worker import Worker, encoder, scheduler

# --- contracts and settings


@pytest.mark.parametrize(
    "bad",
    [
        {"tenant": ""},
        {"objective_s": 0.0},
        {"objective_s": -1.0},
        {"objective_s": math.inf},
        {"share": -0.1},
        {"share": 1.1},
        {"share": 0.1, "service": ServiceClass.BEST_EFFORT},
        {"per_step_s": -0.1},
        {"patience": 0.9},
    ],
)
def test_a_contract_is_refused(bad):
    with pytest.raises(SchedulingError):
        Contract(**{"tenant": "a", "objective_s": 0.1} | bad)


@pytest.mark.parametrize(
    "good",
    [
        {"share": 0.0},
        {"share": 1.0},
        {"patience": 1.0},
        {"per_step_s": 0.0},
        {"share": 0.0, "service": ServiceClass.BEST_EFFORT},
    ],
)
def test_a_contract_at_its_limits_is_accepted(good):
    assert Contract("a", 0.1, **good).within_s(3) == pytest.approx(0.1)
    assert Contract("a", 0.1, per_step_s=0.02).within_s(3) == pytest.approx(0.16)


def test_what_is_left_is_split_equally():
    best = Contract("d", 1, service=ServiceClass.BEST_EFFORT)
    shares = settle_shares([Contract("a", 1, share=0.4), Contract("b", 1), Contract("c", 1), best])
    assert shares == pytest.approx({"a": 0.4, "b": 0.3, "c": 0.3, "d": 0.0})
    assert settle_shares([Contract("a", 1, share=1.0)]) == {"a": 1.0}
    for bad in ([("a", 0.6), ("b", 0.5)], [("a", 1.0), ("b", None)], [("a", 0.1), ("a", 0.1)]):
        with pytest.raises(SchedulingError):
            settle_shares([Contract(name, 1, share=share) for name, share in bad])


@pytest.mark.parametrize(
    "bad",
    [
        {"slots": 0},
        {"log_every": 0},
        {"log_length": 0},
        {"burst": -1},
        {"reserve": -1},
        {"margin": -1},
        {"backlog": -1},
        {"gap_s": -1},
        {"way_s": -1},
        {"cache_bytes": 0},
        {"memory_s": 0.0},
    ],
)
def test_settings_are_refused(bad):
    with pytest.raises(SchedulingError):
        Settings(**bad)


def test_settings_at_their_limits():
    Settings(
        slots=1, log_every=1, log_length=1, burst=0, reserve=0, margin=0, backlog=0, gap_s=0, way_s=0, cache_bytes=1
    )
    usual = Settings()
    assert (usual.burst, usual.reserve, usual.margin, usual.memory_s, usual.gap_s, usual.backlog) == (
        2.0,
        1.5,
        0.1,
        2.0,
        0.001,
        2.0,
    )
    assert (usual.slots, usual.queue_ahead, usual.longest_retry_s, usual.log_every, usual.log_length) == (
        1,
        True,
        60.0,
        16,
        1024,
    )
    assert Contract("a", 1).patience == 10.0


# --- costs


@pytest.mark.parametrize(
    "bad", [(0.0, 1, 1), (math.inf, math.inf, 1), (1.0, 0.9, 1), (1.0, 1.0, 0.0), (1.0, 1.0, -1.0)]
)
def test_a_chunk_costs_something_and_its_p90_no_less(bad):
    with pytest.raises(SchedulingError):
        ChunkCost(*bad)


def test_costs_of_chunks_and_requests():
    assert chunk_cost(2.0, spread=0.1, cold=1.5) == ChunkCost(2.0, 2.2, 3.0)
    assert ChunkCost(1.0, 1.0, 0.1).p90_s == 1.0
    costs = TenantCosts((chunk_cost(1.0, cold=2.0), chunk_cost(2.0, cold=2.0)), step=chunk_cost(0.5, cold=3.0), steps=4)
    assert (costs.total_s, costs.spaced_s) == (5.0, 8.0)
    assert TenantCosts((chunk_cost(1.0, cold=2.0),)).spaced_s == 2.0
    for bad in (
        {"chunks": ()},
        {"chunks": (chunk_cost(1.0),), "steps": 1},
        {"chunks": (chunk_cost(1.0),), "step": chunk_cost(1.0)},
    ):
        with pytest.raises(SchedulingError):
            TenantCosts(**bad)


@pytest.mark.parametrize(("largest", "batches"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])])
def test_batches_to_time(largest, batches):
    assert some_batches(largest) == batches


def test_a_curve_is_straight_between_its_points_and_never_falls():
    curve = BatchCurve.through({1: 2.0, 2: 3.0, 4: 5.0, 6: 4.0})
    assert curve.factors == pytest.approx((1.0, 1.5, 2.0, 2.5, 2.5, 2.5))
    assert curve.largest == 6
    assert [BatchCurve((1.0, 1.5)).at(batch) for batch in (1, 2, 3, 4, 5)] == [1.0, 1.5, 2.5, 3.0, 4.0]
    for bad in ((), (2.0,), (1.0, 0.9)):
        with pytest.raises(SchedulingError):
            BatchCurve(bad)
    assert BatchCurve((1.0, 1.0)).largest == 2


# --- corrections


def test_small_surprises_move_the_lasting_speed_a_little():
    speed = DeviceSpeed()
    speed.see(0.25, 1.0, 0.1)
    assert speed.level == pytest.approx(0.08 * 0.25)
    assert speed.factor == pytest.approx(math.exp(0.02))
    assert (speed.burst, speed.jitter, speed.stamp) == (0.0, 0.0, 1)
    assert speed.pace == pytest.approx(speed.factor)


def test_three_large_surprises_are_a_burst_and_two_are_not():
    speed = DeviceSpeed()
    speed.see(0.5, 1.0, 0.1)
    speed.see(0.6, 2.0, 0.1)
    assert (speed.burst, speed.level) == (0.0, pytest.approx(2 * 0.08 * 0.25))
    speed.see(0.4, 3.0, 0.1)
    assert speed.burst == pytest.approx(0.5)
    assert speed.ease == pytest.approx(math.exp(-0.5))
    assert speed.pace == pytest.approx(speed.factor * math.exp(0.5))
    lost = 0.1 * (1 - math.exp(-0.5)), 0.1 * (1 - math.exp(-0.6)), 0.1 * (1 - math.exp(-0.4))
    memory, jitter = math.exp(-0.01), 0.0
    for time in lost:
        jitter = memory * jitter + (1 - memory) * time * time / 0.1
    assert speed.jitter == pytest.approx(jitter)
    speed.see(0.1, 3.1, 0.1)
    assert speed.burst == pytest.approx(0.53)
    speed.see(-0.4, 3.2, 0.1)
    assert speed.burst == 0.0, "less than a jump is left"


def test_surprises_of_both_signs_are_noise_and_faster_thrice_is_lasting():
    speed = DeviceSpeed()
    for surprise in (0.5, -0.5, 0.5, -0.5):
        speed.see(surprise, 1.0, 0.1)
    assert (speed.burst, speed.level) == (0.0, pytest.approx(0.0))
    for surprise in (-0.5, -0.6):
        speed.see(surprise, 1.0, 0.1)
    assert speed.level == pytest.approx(-0.02 - 0.5), "the one before counts as the first of three"
    speed = DeviceSpeed()
    for surprise in (0.5, 0.1, 0.5, 0.5):
        speed.see(surprise, 1.0, 0.1)
    assert speed.burst == 0.0


def in_burst(size=0.5, at=10.0):
    speed = DeviceSpeed()
    for number in range(3):
        speed.see(size, at + 0.1 * number, 0.1)
    return speed


def test_a_burst_that_lasts_is_the_new_speed():
    speed = in_burst()
    level = speed.level
    speed.see(0.0, 10.1 + 5.0, 0.1)
    assert speed.burst == pytest.approx(0.5)
    speed.see(0.0, 10.1 + 5.01, 0.1)
    assert (speed.burst, speed.level) == (0.0, pytest.approx(level + 0.5))


def test_a_burst_takes_time_from_the_horizon():
    assert DeviceSpeed().horizon(1.0) is None
    speed = in_burst()
    mean = 0.2 + (10.2 - 10.1)
    lost = (1 - math.exp(-0.5)) * mean
    horizon = speed.horizon(10.2)
    assert horizon(10.2) == pytest.approx(10.2)
    assert horizon(11.2) == pytest.approx(11.2 - lost * (1 - math.exp(-1 / mean)))
    assert speed.horizon(10.5)(99.0) == pytest.approx(99 - lost * math.exp(-0.3 / mean))
    assert speed.horizon(9.0)(99.0) == pytest.approx(99 - lost)
    assert horizon(5.0) == 5.0


def test_an_idle_device_forgets():
    speed = DeviceSpeed()
    for _ in range(20):
        speed.see(0.2, 1.0, 0.1)
    level = speed.level
    speed.fade(1.0, 6.0)
    assert speed.level == pytest.approx(level / math.e)
    speed.fade(1.0, 6.0)
    assert speed.level == pytest.approx(level / math.e), "only once for the same time"
    speed.fade(1.0, 11.0)
    assert speed.level == pytest.approx(level / math.e**2)
    burst = in_burst()
    burst.fade(10.2, 10.2 + 0.29)
    assert burst.burst == pytest.approx(0.5)
    burst.fade(10.2, 10.2 + 0.31)
    assert burst.burst == 0.0
    again = in_burst()
    again.see(-0.4, 10.4, 0.1)
    for number in range(3):
        again.see(0.5, 20 + 0.1 * number, 0.1)
    mean = (0.9 * (0.2 + 0.4 - 0.1) + (20.2 - 20.1)) / (0.9 * 2)
    lost = (1 - math.exp(-again.burst)) * mean
    assert again.horizon(20.2)(999.0) == pytest.approx(999 - lost)


def estimate(**more):
    return CostEstimate(
        TenantCosts((chunk_cost(0.1, spread=0.2, cold=2.0), chunk_cost(0.3, spread=0.2)), **more), DeviceSpeed()
    )


def test_the_rest_of_a_request_adds_up_from_its_end():
    costs = estimate(step=chunk_cost(0.01), steps=5)
    assert costs.rest_s == pytest.approx([0.4, 0.3, 0.0])
    assert costs.rest_variance == pytest.approx([0.02**2 + 0.06**2, 0.06**2, 0.0])
    assert costs.request_s(2.0, 3) == pytest.approx(0.83)
    assert costs.chunk_s(0, 0, 1, 2.0, spaced=True) == pytest.approx(0.4)
    assert costs.chunk_s(1, 0, 1, 2.0, spaced=False) == pytest.approx(0.6)
    assert costs.chunk_s(0, 4, 1, 2.0, spaced=False) == pytest.approx(0.04)


def test_a_chunk_learns_its_share_and_the_device_the_rest():
    costs = estimate(curve=BatchCurve((1.0, 1.5)))
    costs.see(0, 0, 2, 2.0, began=1.0, ended=1.0 + 0.3 * 1.2, spaced=False)
    surprise = math.log(1.2)
    assert costs.chunks[0].p50_s == pytest.approx(0.1 * math.exp(0.03 * surprise))
    assert costs.speed.level == pytest.approx(0.08 * surprise)
    assert costs.rest_s == pytest.approx([0.3 + costs.chunks[0].p50_s, 0.3, 0.0])
    spread = math.log(1.2) - 0.02 * 0.1
    above = costs.chunks[0].p50_s * math.expm1(spread)
    assert costs.chunks[0].variance == pytest.approx(above**2)
    costs.see(1, 0, 1, 1.0, began=2.0, ended=2.0, spaced=False)
    assert costs.chunks[1].p50_s == 0.3, "a chunk of no time teaches nothing"


def test_a_chunk_after_a_gap_only_learns_its_spaced_cost():
    costs = estimate()
    costs.see(0, 0, 1, 1.0, began=1.0, ended=1.3, spaced=True)
    assert costs.chunks[0].spaced_s == pytest.approx(0.2 * math.exp(0.1 * math.log(1.5)))
    assert (costs.chunks[0].p50_s, costs.speed.level) == (0.1, 0.0)
    costs.see(0, 0, 1, 1.0, began=1.0, ended=99.0, spaced=True)
    assert costs.chunks[0].spaced_s == pytest.approx(0.2 * math.exp(0.1 * (math.log(1.5) + 0.7)))


def test_a_slow_chunk_widens_the_spread_and_single_chunks_count_at_most_twofold():
    costs = estimate(step=chunk_cost(0.01, spread=0.1), steps=5, step_curve=BatchCurve((1.0, 1.2)))
    costs.see(0, 4, 2, 1.0, began=1.0, ended=1.0 + 4 * 0.01 * 1.2 * 9, spaced=False)
    assert costs.step.p50_s == pytest.approx(0.01 * math.exp(0.03 * 0.7))
    assert costs.step.variance == pytest.approx((costs.step.p50_s * math.expm1(math.log(1.1) + 0.02 * 0.9)) ** 2)
    assert costs.rest_s == pytest.approx([0.4, 0.3, 0.0])
    assert (correction.JUMP_LENGTH, correction.MOST, correction.LASTING_S) == (3, 0.7, 5.0)


# --- the queue, against a sorted list


class Work:
    """What the queue looks at."""

    def __init__(self, due, order, rest_s, *, conforming=True, begun=False, tenant="t", late=False):
        self.due, self.order, self.rest_s, self.conforming = due, order, rest_s, conforming
        self.begun, self.tenant, self.late, self.block = begun, tenant, late, None


def test_the_queue_is_a_sorted_list_in_blocks():
    dice = random.Random(4)
    waiting, plain = Waiting(), []
    for order in range(1500):
        if plain and dice.random() < 0.3:
            job = plain.pop(dice.randrange(len(plain)))
            waiting.remove(job)
            assert job.block is None
        else:
            job = Work(dice.randrange(60), order, dice.choice([0.25, 0.5, 2.0]), conforming=dice.random() < 0.7)
            plain.append(job)
            waiting.add(job)
            assert job in job.block.jobs
        if order % 7 == 0:
            changed = dice.choice(plain) if plain else None
            if changed:
                changed.rest_s += 0.5
                changed.block.lengthen(0.5)
        assert len(waiting) == len(plain)
        due = dice.randrange(-1, 61)
        assert waiting.rest_before_s(due) == pytest.approx(sum(job.rest_s for job in plain if job.due <= due))
        kinds = [
            sorted((job for job in plain if job.conforming is kind), key=lambda job: (job.due, job.order))
            for kind in (True, False)
        ]
        most = VIEW if len(plain) <= VIEW else VIEW // 3
        expected = sorted(kinds[0][:VIEW] + kinds[1][:most], key=lambda job: (job.due, job.order))
        assert waiting.view() == expected
        assert all(len(job.block.jobs) <= MOST_IN_BLOCK for job in plain[:3])
    assert len(plain) > 3 * MOST_IN_BLOCK
    for job in plain:
        waiting.remove(job)
    assert (len(waiting), waiting.view(), waiting.rest_before_s(99)) == (0, [], 0.0)


def test_the_begun_job_beyond_a_share_that_is_due_first():
    waiting = Waiting()
    jobs = [
        Work(3, 0, 1.0, conforming=False, begun=True),
        Work(1, 1, 2.1, conforming=False, begun=True),
        Work(2, 2, 2.0, conforming=False, begun=True),
        Work(0, 3, 1.0, conforming=False),
        Work(0, 4, 1.0, begun=True),
        Work(0, 5, 1.0, conforming=False, begun=True, late=True),
        Work(0, 6, 1.0, conforming=False, begun=True, tenant="u"),
    ]
    for job in jobs:
        waiting.add(job)
    assert waiting.begun_beyond("t", 2.0) is jobs[2]
    waiting.remove(jobs[2])
    assert waiting.begun_beyond("t", 2.0) is jobs[0]
    waiting.begin(jobs[3])
    assert waiting.begun_beyond("t", 2.0) is jobs[3]
    assert waiting.begun_beyond("nobody", 2.0) is None


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
