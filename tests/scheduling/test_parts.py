"""The scheduler's parts by hand: accounts, jobs, slots, caches, waits and the log, each rule to its exact value."""

import math
import random

import pytest

from cotenant.errors import SchedulingError
from cotenant.scheduling import Arrived, Contract, DeviceScheduler, Settings, TenantCosts, chunk_cost
from cotenant.scheduling.contract import ServiceClass
from cotenant.scheduling.correction import DeviceSpeed
from cotenant.scheduling.costs import BatchCurve
from cotenant.scheduling.events import (
    Cancelled,
    ChunkDone,
    ChunkLost,
    TenantAdded,
    TenantPaused,
    TenantRemoved,
    TenantResumed,
    Tick,
)
from cotenant.scheduling.instructions import Chunk, Decision, DecisionLog, Done, Dropped, Shed, StartChunk, Why
from cotenant.scheduling.job import Job, Request
from cotenant.scheduling.roster import Caches, Roster
from cotenant.scheduling.simulation.device import Arrival, SimulatedDevice
from cotenant.scheduling.slot import Offer, Slot
from cotenant.scheduling.tenant import TenantState
from tests.scheduling.worker import decoder, encoder, scheduler


def tenant(costs=None, *, objective_s=1.0, share=None, **contract):
    return TenantState(Contract("a", objective_s, share, **contract), costs or encoder(), DeviceSpeed(), 0.0)


def request(number=0, at=0.0, *, contract=None, steps=0, way_s=0.0, **more):
    return Request(Arrived(at, number, "a", **more), contract or Contract("a", 1.0), steps, way_s)


# --- accounts


def test_an_account_grows_at_its_rate_up_to_its_size():
    one = tenant()
    one.grant(0.5, 2, burst=0.1, memory_s=60.0)
    assert one.rate == 1.0, "a share of every slot"
    assert one.balance_s(0.0) == 0.1, "it begins full"
    assert one.charge(0.1, 0.0)
    assert not one.charge(0.06, 0.05)
    assert one.charge(0.05, 0.05), "exactly what is there"
    assert one.balance_s(0.06) == pytest.approx(0.01)
    assert one.balance_s(99.0) == 0.1
    small = tenant()
    small.grant(0.5, 1, burst=0.0, memory_s=60.0)
    assert small.balance_s(0.0) == pytest.approx(0.02), "two requests fit in any account"
    small.grant(0.5, 1, burst=9.0, memory_s=60.0)
    assert small.balance_s(0.0) == pytest.approx(0.02), "a larger account isn't filled at once"
    free = tenant(service=ServiceClass.BEST_EFFORT)
    free.grant(0.5, 1, burst=0.1, memory_s=60.0)
    assert (free.rate, free.balance_s(9.0), free.book_return(0.01, 0.0)) == (0.0, 0.0, math.inf)


def test_refused_requests_come_back_one_after_the_other():
    one = tenant()
    one.grant(0.5, 1, burst=0.1, memory_s=60.0)
    assert one.charge(0.1, 0.0)
    assert one.book_return(0.1, 0.0) == pytest.approx(0.2)
    assert one.book_return(0.1, 0.0) == pytest.approx(0.4)
    assert one.book_return(0.1, 0.3) == pytest.approx(0.3)
    assert one.book_return(0.01, 99.0) == 0.0, "the account already holds it"


def test_a_pause_ends_when_it_was_said_or_takes_a_quarter_longer():
    one = tenant()
    assert one.paused_for_s(0.0) is None
    one.pause(10.0, 5.0)
    assert [one.paused_for_s(now) for now in (5.0, 12.0, 14.6)] == [10.0, 3.0, 0.5]
    assert one.paused_for_s(15.0) == 2.5, "a quarter of the time so far"
    assert one.paused_for_s(25.0) == 5.0
    one.resume()
    assert one.paused_for_s(25.0) is None


def test_the_recent_past_fades():
    one = tenant()
    one.grant(0.5, 1, burst=0.1, memory_s=20.0)
    assert one.attained == 1.0
    one.offer(0.4, 0.0)
    one.offer(0.4, 0.0)
    one.meet(0.0)
    assert (one.attained, one.asked_s, one.expected_rate) == (0.5, 0.8, pytest.approx(0.04))
    one.exceed(0.8, 0.0)
    assert not one.floods, "no more than was asked within the share"
    one.exceed(0.001, 0.0)
    assert one.floods
    one.age(20.0)
    assert (one.asked_s, one.beyond_s) == (pytest.approx(0.8 / math.e), pytest.approx(0.801 / math.e))
    assert one.attained == 0.5
    one.age(10.0)
    assert one.asked_s == pytest.approx(0.8 / math.e), "time doesn't run back"
    one.meet(30.0)
    assert one.attained == pytest.approx((math.exp(-3) + 1) / (2 * math.exp(-3)))
    one.offer(99.0, 30.0)
    assert one.expected_rate == 0.5, "at most the guaranteed rate"
    lone = tenant()
    lone.grant(0.5, 1, burst=0.1, memory_s=20.0)
    lone.exceed(0.01, 0.0)
    assert not lone.floods, "a request is no flood"


# --- requests and jobs


@pytest.mark.parametrize(
    ("deadline", "way_s", "expected"),
    [
        (None, 0.0, (6.0, 6.0, 0.0)),
        (5.5, 0.0, (5.5, 6.0, 0.0)),
        (9.0, 0.0, (9.0, 9.0, 0.0)),
        (None, 0.01, (6.0, 5.99, 0.01)),
        (None, 0.9, (6.0, 5.95, 0.05)),
    ],
)
def test_a_request_is_due_no_earlier_than_its_contract_less_its_way(deadline, way_s, expected):
    found = request(at=5.0, deadline=deadline, way_s=way_s)
    assert (found.deadline, found.due, found.way_s) == pytest.approx(expected)
    assert (found.conforming, found.cost_s, found.cache_bytes, found.holds) == (True, 0.0, 0, False)


def test_a_job_is_due_with_its_first_and_as_large_as_its_largest_member():
    owner = tenant(encoder(chunks=2, curve=(1.0, 1.5)))
    job = Job(owner, request(0, 0.0), 1)
    late = Job(owner, request(1, 0.2, scale=3.0, deadline=0.9), 2)
    late.members[0].conforming = job.members[0].conforming = job.conforming = False
    job.join(late)
    assert ([one.id for one in job.members], job.batch, job.due, job.deadline, job.scale) == ([0, 1], 2, 1.0, 0.9, 3.0)
    assert (job.conforming, job.stamp) == (False, -1)
    job.reckon()
    assert job.rest_s == pytest.approx(0.02 * 3 * 1.5)
    job.cover()
    assert (job.conforming, job.members[0].conforming, job.members[1].conforming) == (True, True, False)
    job.leave(job.members[0])
    assert (job.batch, job.due, job.conforming) == (1, pytest.approx(1.2), False)
    job.advance(0)
    assert (job.stage, job.begun, job.ended) == (1, True, False)
    job.advance(0)
    assert job.ended
    job.leave(job.members[0])
    assert (job.members, job.batch) == ([], 1)


def test_a_batch_that_began_keeps_its_cost():
    owner = tenant(encoder(curve=(1.0, 1.5)))
    job = Job(owner, request(0), 1)
    job.join(Job(owner, request(1), 2))
    job.begun = True
    job.leave(job.members[0])
    assert job.batch == 2


def test_the_rest_of_a_decoder_is_its_prefill_and_its_steps():
    owner = tenant(decoder(0.01, 0.002, spread=1.5))
    job = Job(owner, request(steps=5), 1)
    job.reckon()
    assert (job.prefill_s, job.rest_s) == (pytest.approx(0.01), pytest.approx(0.02))
    spread = job.plan_s - job.rest_s
    first, each = owner.estimate.chunks[0].variance, owner.estimate.step.variance
    assert spread == pytest.approx(math.sqrt(first + 5 * each))
    job.advance(0)
    job.advance(2)
    job.reckon()
    assert (job.steps, job.prefill_s, job.rest_s, job.ended) == (3, 0.0, pytest.approx(0.006), False)
    job.advance(3)
    assert job.ended


# --- slots


def offer(version=1, jobs=(), *, stage=0, steps=0, requests=(0,), predicted_s=2.0):
    return Offer(Chunk(version, 0, "a", tuple(requests), stage, steps, predicted_s), list(jobs), 1.0, 1)


def test_a_slot_is_free_when_its_chunk_is_expected_to_end():
    slot = Slot(3)
    assert (slot.index, slot.free_at(7.0), slot.held()) == (3, 7.0, [])
    job, other = (Job(tenant(), request(number), number) for number in range(2))
    queued = offer(2, [other])
    slot.queued, slot.offers[2] = queued, queued
    slot.run(offer(1, [job]), 5.0)
    assert (slot.free_at(6.0), slot.free_at(9.0)) == (7.0, 9.0)
    assert (slot.queued, slot.offers, slot.held()) == (None, {}, [job])
    slot.queued, slot.offers[2] = queued, queued
    assert slot.held() == [other, job]
    slot.end()
    assert (slot.running, slot.queued, slot.offers, slot.free_at(6.0)) == (None, None, {}, 6.0)


def test_an_offer_is_the_same_if_jobs_stage_and_steps_are():
    job, other = (Job(tenant(), request(number), number) for number in range(2))
    made = offer(1, [job], stage=1, steps=2)
    assert made.matches([job], 1, 2)
    assert not made.matches([job], 0, 2)
    assert not made.matches([job], 1, 1)
    assert not made.matches([other], 1, 2)
    job.join(other)
    assert not made.matches([job], 1, 2), "it has another member now"


# --- memory for caches


def cached(cache_bytes):
    return TenantCosts((chunk_cost(0.01),), cache_bytes=cache_bytes)


def memory(total, **tenants):
    """Tenants with equal shares, each with the bytes of a typical request."""
    roster = Roster([(Contract(name, 1.0), cached(size)) for name, size in tenants.items()], Settings(), 0.0)
    caches = Caches(total, roster)

    def job(name, size):
        owner = roster.tenants[name]
        return Job(owner, Request(Arrived(0.0, name, name, cache_bytes=size), owner.contract, 0), 1)

    return caches, job


def test_memory_is_lent_but_for_a_request_of_each_other_tenant():
    caches, job = memory(100, a=10, b=10, idle=0)
    assert caches.fits(job("a", 100)), "nobody holds any"
    assert not caches.fits(job("a", 101))
    caches.hold(job("b", 20))
    assert caches.held() == 20
    assert caches.fits(job("a", 50)), "its part"
    caches.hold(job("a", 50))
    assert caches.fits(job("a", 20)), "10 stay free for a request of b"
    assert not caches.fits(job("a", 21))
    assert caches.fits(job("b", 30)), "all that is left lies within its part"
    assert not caches.fits(job("b", 31))
    assert caches.fits(job("a", 0))
    begun = job("a", 99)
    begun.begun = True
    assert caches.fits(begun)
    assert caches.holds(request(cache_bytes=100))
    assert not caches.holds(request(cache_bytes=101))
    unlimited, make = memory(None, a=10)
    assert unlimited.fits(make("a", 10**12))
    assert unlimited.holds(request(cache_bytes=10**12))


# --- the roster


def test_the_longest_chunk_is_half_of_the_least_slack_and_shares_are_settled_anew():
    roster = Roster([(Contract("a", 0.11), encoder()), (Contract("b", 0.05), encoder())], Settings(), 0.0)
    assert roster.quantum_s == pytest.approx(0.02)
    assert [roster.tenants[name].rate for name in "ab"] == [0.5, 0.5]
    roster.add(Contract("c", 1.0, 0.5), encoder(), 0.0)
    assert [roster.tenants[name].rate for name in "abc"] == [0.25, 0.25, 0.5]
    roster.remove("b")
    assert (roster.tenants["a"].rate, roster.quantum_s) == (0.5, pytest.approx(0.05))
    with pytest.raises(SchedulingError, match="no tenant b") as refused:
        roster.named("b")
    assert refused.value.hint == "Its tenants: a, c."
    with pytest.raises(SchedulingError, match="below the 10 ms"):
        roster.add(Contract("d", 0.009), encoder(), 0.0)
    with pytest.raises(SchedulingError, match="share"):
        roster.add(Contract("d", 1.0, 0.6), encoder(), 0.0)
    assert sorted(roster.tenants) == ["a", "c"]
    roster.add(Contract("soft", 0.009, hard=False), encoder(), 0.0)
    assert Roster([], Settings(quantum_s=0.3), 0.0).quantum_s == 0.3
    assert Roster([], Settings(), 0.0).quantum_s == 0.0


# --- a scheduler, event by event


def answers(out):
    return [type(each).__name__ for each in out]


def test_an_event_for_a_chunk_that_does_not_run_is_an_error_or_too_late():
    made = scheduler(("a", 1.0, encoder()))
    with pytest.raises(SchedulingError, match="version 7 ended, but it wasn't running"):
        made.handle(ChunkDone(0.0, 7, 0.0, 0.0, None, ()))
    assert made.handle(ChunkLost(0.0, 7)) == []
    [start] = made.handle(Arrived(0.0, 0, "a"))
    assert isinstance(start, StartChunk)
    with pytest.raises(SchedulingError, match="version 9 was started, but it wasn't queued"):
        made.handle(ChunkDone(0.01, start.chunk.version, 0.0, 0.01, 9, ()))
    with pytest.raises(SchedulingError, match="arrived twice"):
        made.handle(Arrived(0.0, 0, "a"))
    assert made.handle(ChunkLost(0.0, start.chunk.version + 1)) == []
    [done] = made.handle(ChunkDone(0.01, start.chunk.version, 0.0, 0.01, None, ()))
    assert done == Done(0, "a", True, 0.01, pytest.approx(0.01), deadline=1.0)
    assert made.unanswered == 0


@pytest.mark.parametrize(("ended", "met"), [(0.1, True), (0.1000001, False)])
def test_a_request_is_in_time_up_to_its_deadline(ended, met):
    made = scheduler(("a", 0.1, encoder()))
    [start] = made.handle(Arrived(0.0, 0, "a"))
    [done] = made.handle(ChunkDone(ended, start.chunk.version, 0.0, ended, None, ()))
    assert done.met is met


def test_refusals_on_arrival():
    made = scheduler(("a", 0.1, encoder()), longest_retry_s=2.0)

    def refused(**more):
        [shed] = made.handle(Arrived(more.pop("at", 0.0), more.pop("id", 0), more.pop("tenant", "a"), **more))
        assert isinstance(shed, Shed)
        return shed.why, shed.retry_after_s

    assert refused(tenant="nobody") == (Why.UNKNOWN_TENANT, None)
    assert refused(deadline=0.0099) == (Why.TOO_LARGE, None)
    assert refused(scale=10.1) == (Why.TOO_LARGE, None)
    made.handle(TenantPaused(0.0, "a", 1.0))
    assert refused() == (Why.PAUSED, 1.0)
    made.handle(TenantPaused(0.0, "a", 5.0))
    assert refused() == (Why.PAUSED, 2.0), "no longer than the longest"
    made.handle(TenantResumed(0.0, "a"))
    assert answers(made.handle(Arrived(0.0, 1, "a", deadline=0.01))) == ["StartChunk"], "just long enough"
    assert [one.why for one in made.decisions() if one.kind == "shed"] == [
        Why.UNKNOWN_TENANT, Why.TOO_LARGE, Why.TOO_LARGE, Why.PAUSED, Why.PAUSED,
    ]  # fmt: skip


def test_a_paused_tenant_sheds_what_waits_unless_it_drains():
    for drain, shed in ((True, 0), (False, 2)):
        made = scheduler(("a", 1.0, encoder()))
        for number in range(2):
            made.handle(Arrived(0.0, number, "a"))
        out = made.handle(TenantPaused(0.001, "a", 3.0, drain))
        found = [each for each in out if isinstance(each, Shed)]
        assert [(each.why, each.retry_after_s) for each in found] == [(Why.PAUSED, 3.0)] * shed
        assert [each.begun for each in found] == [True, False][:shed]
        assert made.unanswered == 2 - shed


def test_a_lost_worker_sheds_what_it_ran_until_its_tenant_is_back():
    made = scheduler(("a", 0.7, encoder()), ("b", 1.0, encoder()))
    [start, *_] = made.handle(Arrived(0.0, 0, "a"))
    made.handle(Arrived(0.0, 1, "b"))
    lost, following = made.handle(ChunkLost(0.005, start.chunk.version))
    assert (lost.request, lost.why, lost.retry_after_s, lost.begun) == (0, Why.WORKER_LOST, 0.7, True)
    assert following.chunk.requests == (1,)
    made.handle(TenantPaused(0.006, "b", 9.0, drain=True))
    lost, *_ = made.handle(ChunkLost(0.007, following.chunk.version))
    assert lost.retry_after_s == pytest.approx(8.999)


def test_a_removed_tenant_and_a_cancelled_request():
    made = scheduler(("a", 1.0, encoder()))
    made.handle(TenantAdded(0.0, Contract("b", 1.0), encoder()))
    for number, name in enumerate("ab"):
        made.handle(Arrived(0.0, number, name))
    out = made.handle(TenantRemoved(0.0, "b"))
    assert [(each.request, each.why, each.retry_after_s) for each in out if isinstance(each, Shed)] == [
        (1, Why.REMOVED, None)
    ]
    assert made.handle(Cancelled(0.0, 99)) == []
    out = made.handle(Cancelled(0.001, 0))
    assert [each for each in out if isinstance(each, Dropped)] == [Dropped(0, "a", True)]
    assert made.unanswered == 0
    with pytest.raises(SchedulingError):
        made.handle(TenantRemoved(0.0, "b"))


def test_waits_and_wakes():
    made = scheduler(("a", 1.0, encoder()), ("b", 0.5, encoder()))
    assert (made.wake_at(), made.predicted_wait_s("a", 3.0)) == (None, 0.0)
    made.handle(Arrived(0.0, 0, "a"))
    assert made.predicted_wait_s("a", 0.004) == pytest.approx(0.006)
    made.handle(Arrived(0.0, 1, "a"))
    assert made.predicted_wait_s("a", 0.004) == pytest.approx(0.016)
    assert made.predicted_wait_s("b", 0.004) == pytest.approx(0.006), "what is due later doesn't come first"
    assert made.wake_at() == pytest.approx(0.99)
    assert made.handle(Tick(0.001)) == []
    assert made.speed == 1.0
    assert made.cache_use is None


def test_the_part_of_the_memory_that_is_used():
    made = DeviceScheduler([(Contract("a", 1.0), cached(30))], Settings(cache_bytes=100))
    assert made.cache_use == 0.0
    made.handle(Arrived(0.0, 0, "a"))
    assert made.cache_use == pytest.approx(0.3)
    [shed] = [each for each in made.handle(Arrived(0.0, 1, "a", cache_bytes=101)) if isinstance(each, Shed)]
    assert shed.why is Why.TOO_LARGE
    made.handle(Cancelled(0.0, 0))
    assert made.cache_use == 0.0


def test_standings_are_those_of_the_accounts():
    made = scheduler((Contract("a", 1.0, 0.25), decoder(0.01, 0.002, 10)), ("b", 1.0, encoder()), burst=0.1)
    first, second = made.standings(0.0)
    assert first == ("a", 0.25, pytest.approx(0.1), 0.0, 1.0, pytest.approx(0.03))
    assert (second.tenant, second.share_rate, second.request_s) == ("b", 0.75, pytest.approx(0.01))
    made.handle(Arrived(0.0, 0, "a", steps=5))
    assert made.standings(0.0)[0].backlog_s == pytest.approx(0.02)
    assert made.standings(0.0)[0].account_s == pytest.approx(0.08)


# --- the log


def test_every_refusal_and_one_in_so_many_choices_are_kept():
    log = DecisionLog(3, 2)
    assert [log.due() for _ in range(7)] == [False, False, True, False, False, True, False]
    for number in range(3):
        log.keep(Decision(0.5, "chunk", "a", (number, 9), "planned", 4, 5, 2, 0.0123))
    assert [one.requests[0] for one in log.records()] == [1, 2]
    assert log.records()[0].explain() == (
        "At 0.5000 s a (1, 9) was chosen (planned) as version 4, with 12.3 ms to spare; 2 of 5 waiting jobs were "
        "planned."
    )
    shed = Decision(0.5, "shed", "a", (1,), Why.PAUSED, None, 5, 0, 0.0)
    assert shed.explain() == "At 0.5000 s request 1 of a was shed (paused); 5 waited."


def test_a_choice_is_kept_with_its_time_to_spare():
    made = scheduler(("a", 1.0, encoder()), log_every=1)
    made.handle(Arrived(0.25, 0, "a"))
    [kept] = made.decisions()
    assert (kept.time, kept.kind, kept.why, kept.waiting, kept.planned) == (0.25, "chunk", "alone", 1, 1)
    assert kept.slack_s == pytest.approx(0.99)
    assert BatchCurve((1.0,)).largest == 1


def test_a_tenant_that_is_added_again_has_its_new_contract_and_keeps_its_account():
    roster = Roster([(Contract("a", 0.5, 0.5), encoder()), (Contract("b", 1.0), encoder())], Settings(burst=0.1), 0.0)
    assert roster.tenants["a"].charge(0.05, 0.0)
    roster.add(Contract("a", 2.0, 0.25), encoder(each_s=0.02), 0.0)
    assert (roster.tenants["a"].objective_s, roster.tenants["a"].rate) == (2.0, 0.25)
    assert roster.tenants["a"].estimate.request_s(1.0, 0) == pytest.approx(0.02)
    assert roster.tenants["a"].balance_s(0.0) < 0.05


def test_what_an_event_does_not_state():
    event = Arrived(0.0, 1, "a")
    assert (event.deadline, event.scale, event.steps, event.priority, event.cache_bytes) == (None, 1.0, None, 0, None)
    done = ChunkDone(0.0, 1, 0.0, 0.0)
    assert (done.started, done.finished, done.slot) == (None, (), 0)
    arrival = Arrival(0.0, "a")
    assert (arrival.deadline, arrival.scale, arrival.steps, arrival.priority) == (None, 1.0, None, 0)


def test_a_noisy_device_is_as_often_slower_as_faster():
    times = [
        SimulatedDevice({"a": encoder(each_s=1.0)}, noise=0.2, seed=5).chunk_s(
            Chunk(1, 0, "a", (1,), 0, 0, 0.0), 1, 1.0, 0.0, 0.0
        )
        for _ in range(2)
    ]
    drawn = math.exp(random.Random(5).gauss(0.0, 0.2))
    assert times == pytest.approx([drawn, drawn]), "the same seed gives the same noise"
