"""Which chunk starts, how long it is expected to take, and when a late request is given up: each at its limit."""

import pytest

from cotenant.scheduling import Arrived, ChunkDone, Contract, Shed, StartChunk, TenantCosts, Why, chunk_cost
from cotenant.scheduling.costs import BatchCurve, ChunkCost

from .worker import decoder, encoder, scheduler


def started(out):
    [chunk] = [each.chunk for each in out if isinstance(each, StartChunk)]
    return chunk


def refusals(out):
    return [(each.request, each.why, each.begun) for each in out if isinstance(each, Shed)]


@pytest.mark.parametrize(("arrives", "expected_s"), [(3.5, 1.0), (3.75, 3.0)])
def test_a_chunk_is_spaced_after_more_than_a_gap(arrives, expected_s):
    made = scheduler(("a", 100.0, TenantCosts((ChunkCost(1.0, 1.0, 3.0),))), gap_s=0.5)
    first = started(made.handle(Arrived(0.0, 0, "a")))
    assert first.predicted_s == 3.0, "nothing ran before"
    made.handle(ChunkDone(3.0, first.version, 0.0, 3.0))
    assert started(made.handle(Arrived(arrives, 1, "a"))).predicted_s == pytest.approx(expected_s)


@pytest.mark.parametrize(
    ("quantum_s", "steps", "issued"),
    [(0.0099, 50, 4), (0.01, 50, 5), (0.0119, 50, 5), (0.001, 50, 1), (0.01, 3, 3)],
)
def test_a_chunk_has_as_many_steps_as_fit_a_quantum_and_at_least_one(quantum_s, steps, issued):
    made = scheduler(("a", 100.0, decoder(0.01, 0.002, 50)), quantum_s=quantum_s)
    prefill = started(made.handle(Arrived(0.0, 0, "a", steps=steps)))
    assert (prefill.stage, prefill.steps) == (0, 0)
    queued = made._slots[0].queued.chunk
    assert (queued.stage, queued.steps) == (1, issued)


def test_a_gang_steps_no_further_than_the_member_that_ends_first():
    made = scheduler(("a", 100.0, decoder(0.01, 0.002, 50, curve=(1.0, 1.0))), quantum_s=0.02)
    chunk = started(made.handle(Arrived(0.0, 0, "a", steps=9)))
    made.handle(Arrived(0.0, 1, "a", steps=4))
    second = started(made.handle(ChunkDone(0.01, chunk.version, 0.0, 0.01)))
    together = started(made.handle(ChunkDone(0.02, second.version, 0.01, 0.02)))
    assert (set(together.requests), together.steps) == ({0, 1}, 4)


@pytest.mark.parametrize(("now", "given_up"), [(3.0, []), (3.0001, [(1, Why.DEVICE_FULL, False)])])
def test_a_late_request_of_a_soft_contract_is_given_up_after_its_patience(now, given_up):
    contract = Contract("a", 1.0, hard=False, patience=3.0)
    made = scheduler((contract, encoder(each_s=0.9)))
    first = started(made.handle(Arrived(0.0, 0, "a")))
    made.handle(Arrived(0.0, 1, "a"))
    out = made.handle(ChunkDone(now, first.version, 0.0, 0.9))
    assert refusals(out) == given_up


def test_why_a_late_request_is_shed_says_whether_it_kept_to_its_share():
    made = scheduler(("a", 1.0, encoder(each_s=0.4)), burst=0.0, backlog=9.0)
    first = started(made.handle(Arrived(0.0, 0, "a")))
    for number in (1, 2):
        made.handle(Arrived(0.0, number, "a"))
    assert made.standings(0.0)[0].account_s == pytest.approx(0.0), "two requests fit in any account"
    out = made.handle(ChunkDone(0.9, first.version, 0.0, 0.9))
    assert sorted(refusals(out)) == [(1, Why.DEVICE_FULL, False), (2, Why.OVER_SHARE, False)]


def test_a_batch_is_as_long_as_its_longest_member_makes_it():
    costs = TenantCosts((chunk_cost(0.01),), BatchCurve((1.0, 1.5)))
    made = scheduler(("a", 100.0, costs), quantum_s=1.0)
    first = started(made.handle(Arrived(0.0, 0, "a")))
    made.handle(Arrived(0.0, 1, "a", scale=2.0))
    made.handle(Arrived(0.0, 2, "a", scale=1.0))
    queued = made._slots[0].queued.chunk
    assert (set(queued.requests), queued.predicted_s) == ({1, 2}, pytest.approx(0.01 * 2.0 * 1.5))
    assert first.requests == (0,)


def test_the_work_ahead_is_shared_by_all_slots():
    made = scheduler(("a", 100.0, encoder()), slots=2, queue_ahead=False)
    for number, at in enumerate((0.0, 0.002, 0.002, 0.002)):
        made.handle(Arrived(at, number, "a"))
    assert made.predicted_wait_s("a", 0.004) == pytest.approx(0.006 + 2 * 0.01 / 2), "from the first slot that is free"
