from itertools import pairwise

import pytest

from cotenant.errors import SchedulingError
from cotenant.scheduling import (
    Arrived,
    Cancelled,
    ChunkDone,
    Contract,
    Done,
    Dropped,
    QueueAhead,
    ServiceClass,
    Shed,
    StartChunk,
    TenantAdded,
    TenantPaused,
    TenantRemoved,
    TenantResumed,
    Tick,
    Why,
)

from .worker import Worker, decoder, encoder, scheduler


def test_a_request_starts_at_once_on_an_idle_device_and_its_next_chunk_is_queued_behind():
    worker = Worker(scheduler(("a", 0.1, encoder(chunks=2))))
    start, ahead = worker.arrive(0.0, "r", "a")
    assert isinstance(start, StartChunk)
    assert (start.chunk.stage, start.chunk.requests) == (0, ("r",))
    assert isinstance(ahead, QueueAhead)
    assert (ahead.after, ahead.chunk.stage) == (start.chunk.version, 1)
    worker.run_until_idle()
    assert worker.answers["r"] == Done(
        "r", "a", met=True, latency_s=pytest.approx(0.02), device_s=pytest.approx(0.02), deadline=pytest.approx(0.1)
    )


def test_a_more_urgent_arrival_replaces_the_queued_chunk_by_a_newer_version():
    worker = Worker(scheduler(("slow", 1.0, encoder(chunks=8)), ("fast", 0.03, encoder())))
    worker.arrive(0.0, "s", "slow")
    before = worker.queued.version
    (ahead,) = worker.arrive(0.001, "f", "fast")
    assert ahead.chunk.requests == ("f",)
    assert ahead.chunk.version > before
    worker.run_until_idle()
    assert [chunk.requests for chunk in worker.ran[:3]] == [("s",), ("f",), ("s",)]


def test_an_older_queued_chunk_may_have_started_when_the_newer_message_came_late():
    device = scheduler(("slow", 1.0, encoder(chunks=8)), ("fast", 0.03, encoder()))
    worker = Worker(device)
    worker.arrive(0.0, "s", "slow")
    running, older = worker.running, worker.queued
    worker.arrive(0.009, "f", "fast")
    out = device.handle(ChunkDone(0.010, running.version, 0.0, 0.010, started=older.version))
    (ahead,) = out
    assert (ahead.after, ahead.chunk.requests) == (older.version, ("f",))


def test_a_request_that_can_no_longer_be_in_time_is_shed_with_a_reason_and_a_retry_time():
    worker = Worker(scheduler(("a", 0.025, encoder())))
    for number in range(4):
        worker.arrive(0.0, number, "a")
    worker.end_chunk()
    shed = [end for end in worker.answers.values() if isinstance(end, Shed)]
    assert [(end.request, end.why) for end in shed] == [(2, Why.DEVICE_FULL), (3, Why.DEVICE_FULL)]
    assert all(end.retry_after_s > 0 and end.predicted_wait_s >= 0.01 for end in shed)
    worker.run_until_idle()
    assert all(worker.answers[number].met for number in (0, 1))


def test_requests_beyond_the_share_come_back_one_after_the_other_at_the_guaranteed_rate():
    contract = Contract("a", 0.05, share=0.5)
    worker = Worker(scheduler((contract, encoder()), ("b", 1.0, encoder()), burst=0.0, backlog=0.0))
    for number in range(6):
        worker.arrive(0.0, number, "a")
    after = [end.retry_after_s for end in worker.answers.values() if end.why is Why.OVER_SHARE]
    assert len(after) >= 3
    gaps = [later - earlier for earlier, later in pairwise(after)]
    assert gaps == pytest.approx([0.010 / 0.5] * len(gaps))


def test_a_refused_request_that_comes_back_when_it_should_is_served_in_time():
    contract = Contract("a", 0.05, share=0.5)
    worker = Worker(scheduler((contract, encoder()), ("b", 0.06, encoder()), burst=0.4, backlog=0.0))
    for number in range(8):
        worker.arrive(0.0, number, "a")
        worker.arrive(0.0, f"b{number}", "b")
    again = sorted((end.retry_after_s, number) for number, end in worker.answers.items() if end.tenant == "a")
    assert again
    for after, number in again:
        while worker.running and worker.ends_at <= after:
            worker.end_chunk()
        worker.arrive(after, f"again {number}", "a")
    worker.run_until_idle()
    assert all(worker.answers[f"again {number}"].met for _, number in again)


def test_a_flood_beyond_its_share_gives_way_to_a_tenant_that_keeps_to_it():
    worker = Worker(scheduler(("flood", 0.1, encoder()), ("light", 0.04, encoder()), burst=0.2))
    for number in range(30):
        worker.arrive(0.0, f"f{number}", "flood")
    worker.arrive(0.001, "l", "light")
    worker.run_until_idle()
    assert worker.answers["l"].met


def test_when_not_all_fit_a_tenant_that_sent_twice_its_share_loses_a_request_even_if_it_fared_worse():
    worker = Worker(scheduler(("modest", 0.025, encoder()), ("greedy", 0.026, encoder())))
    for number in range(12):  # five within its share, seven beyond it, and most of them shed
        worker.arrive(0.0, f"flood {number}", "greedy")
    worker.run_until_idle()
    for number in range(6):
        worker.arrive(0.1 + 0.02 * number, f"kept {number}", "modest")
        worker.run_until_idle()
    now = 0.4  # the greedy one's account covers a request again
    worker.arrive(now, "first", "modest")
    worker.arrive(now, "greedy", "greedy")
    worker.arrive(now, "second", "modest")
    worker.run_until_idle()
    assert worker.answers["first"].met
    assert worker.answers["second"].met
    assert isinstance(worker.answers["greedy"], Shed)


def test_when_not_all_fit_a_tenant_a_little_beyond_its_share_loses_none_if_it_fared_worse():
    worker = Worker(scheduler(("modest", 0.025, encoder()), ("eager", 0.026, encoder())))
    for number in range(6):
        worker.arrive(0.1 * number, f"kept {number}", "modest")
        worker.arrive(0.1 * number, f"sent {number}", "eager")
        worker.run_until_idle()
    for number in range(8):  # three beyond its share, and most of them shed
        worker.arrive(0.6, f"more {number}", "eager")
    worker.run_until_idle()
    now = 0.9
    worker.arrive(now, "first", "modest")
    worker.arrive(now, "eager", "eager")
    worker.arrive(now, "second", "modest")
    worker.run_until_idle()
    assert worker.answers["eager"].met
    assert worker.answers["first"].met
    assert isinstance(worker.answers["second"], Shed)


def test_when_not_all_fit_a_started_request_is_kept_even_if_its_tenant_fared_best():
    worker = Worker(scheduler(("long", 0.052, encoder(chunks=4)), ("short", 0.03, encoder())))
    worker.arrive(0.0, "kept", "long")
    worker.run_until_idle()
    worker.arrive(0.1, "lost", "short")
    worker.send(Cancelled(0.1, "lost"))
    worker.run_until_idle()
    worker.arrive(0.2, "started", "long")
    worker.end_chunk()
    worker.arrive(0.211, "first", "short")
    worker.arrive(0.211, "second", "short")
    worker.run_until_idle()
    assert worker.answers["started"].met
    assert worker.answers["first"].met
    assert isinstance(worker.answers["second"], Shed)


def test_a_request_that_started_beyond_the_share_is_covered_before_a_new_one_of_its_tenant():
    contract = Contract("a", 0.062, share=0.5)
    worker = Worker(scheduler((contract, encoder(chunks=4)), ("b", 1.0, encoder()), burst=0.0))
    for number in range(2):  # the account is empty
        worker.arrive(0.0, number, "a")
    worker.run_until_idle()
    worker.arrive(0.06, "started", "a")  # it holds three quarters of a request
    worker.end_chunk()
    worker.end_chunk()
    worker.arrive(0.081, "new", "a")  # it covers one
    worker.run_until_idle()
    assert worker.answers["started"].met
    assert worker.answers["new"].met


def test_a_soft_contract_is_served_late_in_idle_time():
    worker = Worker(scheduler((Contract("a", 0.015, hard=False), encoder())))
    worker.arrive(0.0, 1, "a")
    worker.arrive(0.0, 2, "a")
    worker.run_until_idle()
    assert [worker.answers[number].met for number in (1, 2)] == [True, False]


def test_a_soft_request_is_given_up_after_its_patience():
    contract = Contract("a", 0.011, hard=False, patience=2)
    worker = Worker(scheduler((contract, encoder())))
    for number in range(6):
        worker.arrive(0.0, number, "a")
    worker.run_until_idle()
    ends = [type(worker.answers[number]) for number in range(6)]
    assert ends[:2] == [Done, Done]
    assert ends[-1] is Shed


def test_waiting_requests_are_batched_by_the_measured_curve_and_end_together():
    worker = Worker(scheduler(("a", 0.2, encoder(curve=(1.0, 1.2, 1.4)))))
    for number in range(4):
        worker.arrive(0.001 * number, number, "a")
    worker.run_until_idle()
    assert [chunk.requests for chunk in worker.ran] == [(0,), (1, 2, 3)]
    assert worker.ran[1].predicted_s == pytest.approx(0.014)


def test_a_batch_that_saves_nothing_is_not_formed():
    worker = Worker(scheduler(("a", 0.2, encoder(curve=(1.0, 2.0)))))
    for number in range(3):
        worker.arrive(0.0, number, "a")
    worker.run_until_idle()
    assert [len(chunk.requests) for chunk in worker.ran] == [1, 1, 1]


@pytest.mark.parametrize(("objective_s", "together"), [(0.024, 1), (0.026, 2)])
def test_chunks_of_a_batch_take_at_most_two_thirds_of_the_tightest_slack(objective_s, together):
    """12 ms together beside a tenant that takes 7 ms alone: it can wait for 11.3 and 12.7 ms."""
    device = scheduler(("tight", objective_s, encoder(each_s=0.007)), ("a", 0.5, encoder(curve=(1.0, 1.2))))
    worker = Worker(device)
    worker.arrive(0.0, "t", "tight")
    for number in range(2):
        worker.arrive(0.001, number, "a")
    worker.run_until_idle()
    assert len(worker.ran[1].requests) == together


def test_decoders_step_as_a_gang_and_a_newcomer_does_its_prefill_first():
    worker = Worker(scheduler(("a", 0.3, decoder()), quantum_s=0.004))
    worker.arrive(0.0, 1, "a")
    worker.end_chunk()
    worker.arrive(0.011, 2, "a")
    worker.run_until_idle()
    kinds = [(chunk.requests, chunk.steps > 0) for chunk in worker.ran]
    assert ((2,), False) in kinds
    assert ((1, 2), True) in kinds
    assert all(worker.answers[number].met for number in (1, 2))


def test_a_decoder_may_have_time_for_each_of_its_steps():
    contract = Contract("a", 0.015, per_step_s=0.003)
    worker = Worker(scheduler((contract, decoder(steps=10))))
    worker.arrive(0.0, "short", "a", steps=1)
    worker.run_until_idle()
    worker.arrive(1.0, "long", "a", steps=100)
    worker.run_until_idle()
    assert worker.answers["long"].latency_s == pytest.approx(0.21)
    assert all(worker.answers[name].met for name in ("short", "long"))


def test_a_decoder_that_ends_early_is_done_and_leaves_its_gang():
    worker = Worker(scheduler(("a", 0.3, decoder())))
    worker.arrive(0.0, 1, "a")
    worker.end_chunk()
    worker.end_chunk(finished=(1,))
    assert isinstance(worker.answers[1], Done)
    worker.run_until_idle()


def test_a_cancelled_request_is_dropped_once_and_its_queued_chunk_withdrawn():
    worker = Worker(scheduler(("a", 0.2, encoder(chunks=3))))
    worker.arrive(0.0, 1, "a")
    out = worker.send(Cancelled(0.001, 1))
    assert out == [Dropped(1, "a", begun=True), QueueAhead(worker.running.version, None, 0)]
    assert worker.send(Cancelled(0.002, 1)) == []
    worker.run_until_idle()
    assert worker.scheduler.unanswered == 0


def test_a_paused_tenant_is_refused_and_its_requests_shed_while_the_others_go_on():
    worker = Worker(scheduler(("a", 0.2, encoder(chunks=4)), ("b", 0.2, encoder())))
    worker.arrive(0.0, "a1", "a")
    worker.arrive(0.0, "b1", "b")
    worker.send(TenantPaused(0.001, "a", retry_after_s=2.0))
    worker.lose_chunk(0.001)
    worker.arrive(0.002, "a2", "a")
    assert [worker.answers[name].why for name in ("a1", "a2")] == [Why.PAUSED, Why.PAUSED]
    assert worker.answers["a2"].retry_after_s == pytest.approx(1.999)
    worker.send(TenantResumed(0.1, "a"))
    worker.arrive(0.1, "a3", "a")
    assert "a3" not in worker.answers


def test_the_time_to_retry_counts_down_and_grows_again_if_a_pause_is_longer_than_expected():
    worker = Worker(scheduler(("a", 0.2, encoder())))
    worker.send(TenantPaused(0.0, "a", retry_after_s=8.0))

    def retry_s(now):
        worker.arrive(now, now, "a")
        return worker.answers[now].retry_after_s

    assert [retry_s(now) for now in (1.0, 5.0, 7.9)] == pytest.approx([7.0, 3.0, 0.5])
    assert [retry_s(now) for now in (9.0, 20.0, 1000.0)] == pytest.approx([2.25, 5.0, 60.0])
    worker.send(TenantPaused(1001.0, "a", retry_after_s=4.0))
    assert retry_s(1002.0) == pytest.approx(3.0), "a failed attempt starts again"


def test_requests_on_a_worker_that_died_are_shed_and_the_slot_goes_on_with_others():
    worker = Worker(scheduler(("a", 0.2, encoder(chunks=4)), ("b", 0.2, encoder())))
    worker.arrive(0.0, "a1", "a")
    worker.arrive(0.0, "b1", "b")
    worker.lose_chunk(0.001)
    assert worker.answers["a1"].why is Why.WORKER_LOST
    worker.run_until_idle()
    assert worker.answers["b1"].met


def test_draining_refuses_new_requests_and_finishes_the_accepted_ones():
    worker = Worker(scheduler(("a", 0.2, encoder(chunks=4))))
    worker.arrive(0.0, 1, "a")
    worker.send(TenantPaused(0.001, "a", drain=True))
    worker.arrive(0.002, 2, "a")
    worker.run_until_idle()
    assert isinstance(worker.answers[1], Done)
    assert worker.answers[2].why is Why.PAUSED


def test_a_new_contract_keeps_accepted_requests_even_if_the_model_is_cut_otherwise():
    worker = Worker(scheduler(("a", 0.2, encoder(chunks=4))))
    worker.arrive(0.0, 1, "a")
    worker.end_chunk()
    worker.send(TenantAdded(0.011, Contract("a", 0.1), encoder(chunks=1, each_s=0.02)))
    worker.arrive(0.012, 2, "a")
    worker.run_until_idle()
    assert all(isinstance(worker.answers[number], Done) for number in (1, 2))


def test_a_removed_tenant_is_unknown():
    worker = Worker(scheduler(("a", 0.2, encoder()), ("b", 0.2, encoder())))
    worker.send(TenantRemoved(0.0, "a"))
    worker.arrive(0.1, 1, "a")
    assert worker.answers[1].why is Why.UNKNOWN_TENANT
    with pytest.raises(SchedulingError, match="no tenant a"):
        worker.send(TenantRemoved(0.2, "a"))


def test_a_request_that_takes_longer_than_its_deadline_alone_is_refused_at_once():
    worker = Worker(scheduler(("a", 0.03, encoder())))
    worker.arrive(0.0, 1, "a", scale=4.0)
    assert worker.answers[1].why is Why.TOO_LARGE
    assert worker.answers[1].retry_after_s is None


def test_a_client_cannot_overtake_others_with_a_deadline_tighter_than_its_contract():
    worker = Worker(scheduler(("patient", 0.5, encoder()), ("other", 0.1, encoder())))
    worker.arrive(0.0, "first", "other")
    worker.arrive(0.0, "tight", "patient", deadline=0.05)
    worker.arrive(0.0, "second", "other")
    worker.run_until_idle()
    assert [chunk.requests[0] for chunk in worker.ran] == ["first", "second", "tight"]


def test_best_effort_work_runs_in_slack_only():
    best = Contract("best", 0.1, service=ServiceClass.BEST_EFFORT)
    worker = Worker(scheduler((best, encoder()), ("paying", 0.1, encoder())))
    worker.arrive(0.0, "p0", "paying")
    for number in range(12):
        worker.arrive(0.001, f"b{number}", "best")
    for number in range(1, 8):
        worker.arrive(0.002, f"p{number}", "paying")
    worker.run_until_idle()
    assert all(worker.answers[f"p{number}"].met for number in range(8))
    assert any(isinstance(worker.answers[f"b{number}"], Shed) for number in range(12))


def test_a_tick_sheds_what_became_hopeless_while_a_long_chunk_ran():
    worker = Worker(scheduler(("long", 1.0, encoder(each_s=0.2)), ("short", 0.3, encoder())))
    worker.arrive(0.0, "l", "long")
    worker.arrive(0.0, "s", "short")
    wake = worker.scheduler.wake_at()
    assert wake == pytest.approx(0.29)
    worker.send(Tick(0.28))
    assert "s" not in worker.answers
    worker.send(Tick(0.295))
    assert worker.answers["s"].why is Why.DEVICE_FULL


def test_several_slots_run_different_jobs_at_once():
    device = scheduler(("a", 0.1, encoder(chunks=2)), slots=2)
    first = device.handle(Arrived(0.0, 1, "a"))
    second = device.handle(Arrived(0.0, 2, "a"))
    starts = [out.chunk for out in first + second if isinstance(out, StartChunk)]
    assert [(chunk.slot, chunk.requests) for chunk in starts] == [(0, (1,)), (1, (2,))]


def test_every_refusal_is_in_the_decision_log_and_explains_itself():
    worker = Worker(scheduler(("a", 0.025, encoder()), log_every=1))
    for number in range(3):
        worker.arrive(0.0, number, "a")
    worker.end_chunk()
    records = worker.scheduler.decisions()
    assert [record.requests for record in records if record.kind == "shed"] == [(2,)]
    assert "was shed (device full)" in records[-1].explain() or "was chosen" in records[-1].explain()
    assert any("to spare" in record.explain() for record in records if record.kind == "chunk")


def test_contradictory_events_are_errors():
    worker = Worker(scheduler(("a", 0.2, encoder())))
    worker.arrive(0.0, 1, "a")
    with pytest.raises(SchedulingError, match="arrived twice"):
        worker.arrive(0.0, 1, "a")
    with pytest.raises(SchedulingError, match="wasn't running"):
        worker.send(ChunkDone(0.1, 99, 0.0, 0.1))


def test_a_device_believed_too_slow_for_every_request_is_retried_after_a_while():
    worker = Worker(scheduler(("a", 0.025, encoder(chunks=2))))
    believed = worker.scheduler._roster.speed
    believed.level, believed.factor = 2.0, 7.4
    worker.scheduler._slots[0].last_end = 0.0
    worker.arrive(0.1, "early", "a")
    assert worker.answers["early"].why is Why.TOO_LARGE
    worker.arrive(30.0, "later", "a")
    worker.run_until_idle()
    assert worker.answers["later"].met


def test_delivery_time_is_reserved_but_does_not_count_as_late():
    costs = encoder(each_s=0.010)
    assert Worker(scheduler(("a", 0.0102, costs))).scheduler.settings.way_s == 0
    worker = Worker(scheduler(("a", 0.025, costs), way_s=0.001))
    worker.arrive(0.0, "first", "a")
    worker.arrive(0.0001, "second", "a")
    worker.arrive(0.0002, "third", "a")
    worker.run_until_idle()
    assert worker.answers["second"].met
    assert isinstance(worker.answers["third"], Shed)


def test_equal_deadlines_are_served_in_the_order_of_arrival():
    worker = Worker(scheduler(("a", 1.0, encoder())))
    for name in ("first", "second", "third", "fourth"):
        worker.arrive(0.0, name, "a", deadline=1.0)
    worker.run_until_idle()
    assert [chunk.requests for chunk in worker.ran] == [("first",), ("second",), ("third",), ("fourth",)]
