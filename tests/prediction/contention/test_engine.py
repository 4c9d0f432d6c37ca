"""The engine: host and device, loads, records, determinism, bounded memory."""

from dataclasses import replace

import numpy as np
import pytest

from cotenant.prediction.contention import simulation as simulating
from cotenant.prediction.contention.layout import Slicing
from cotenant.prediction.contention.simulation import Player, simulate
from cotenant.prediction.contention.trace import Trace, plain_trace

_COLUMNS = ("duration_ns", "occupancy", "dram", "tensor", "launch_ns", "block_ns", "holds", "waited")


def test_a_busy_device_hides_the_host_and_a_slow_host_starves_the_device():
    busy = plain_trace(kernels=100, device_ns=5e6, host_ns=1e6)
    starved = plain_trace(kernels=100, device_ns=1e6, host_ns=5e6)
    for trace, expected in ((busy, 5e6 + 1e4), (starved, 5e6 + 1e4)):
        outcome = simulate([Player(trace)], window_end_ns=1e8)
        assert np.diff(outcome.requests[0].done) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("copies", [0, 1, 3])
def test_the_closed_form_of_a_request_alone_agrees(copies):
    random = np.random.default_rng(copies)
    plain = plain_trace(kernels=20, device_ns=1e6)
    for _ in range(20):
        trace = replace(
            plain,
            duration_ns=random.uniform(1e3, 1e5, 20),
            launch_ns=random.uniform(1e3, 1e5, 20),
            waited=(np.arange(20) < copies).astype(float),
            before_ns=2e4,
            after_ns=3e4,
        )
        requests = simulate([Player(trace, first_output=10)], window_end_ns=1.0, deadline_ns=1e9).requests[0]
        assert trace.alone_ns() == pytest.approx(requests.done[0] - requests.started[0], rel=1e-9)
        assert trace.alone_ns(11) == pytest.approx(requests.first[0] - requests.started[0], rel=1e-9)


def test_a_closed_loop_begins_the_next_request_when_the_last_is_done():
    outcome = simulate([Player(plain_trace(kernels=10, device_ns=1e6))], window_end_ns=1e7)
    requests = outcome.requests[0]
    assert requests.started[1:] == pytest.approx(requests.done[:-1])
    assert requests.intended == pytest.approx(requests.started)


def test_outstanding_requests_wait_behind_each_other():
    outcome = simulate([Player(plain_trace(kernels=10, device_ns=1e6), outstanding=3)], window_end_ns=1e7)
    requests = outcome.requests[0]
    assert (requests.done - requests.intended)[5:] == pytest.approx(3e6)


def test_open_loads_start_when_due_or_when_free():
    due = np.array([0, 5_000_000, 5_500_000], np.int64)
    trace = plain_trace(kernels=10, device_ns=1e6)
    outcome = simulate([Player(trace, outstanding=0, arrivals_ns=due)], window_end_ns=1e7)
    requests = outcome.requests[0]
    assert requests.intended == pytest.approx(due)
    assert requests.started == pytest.approx([0, 5e6, 6e6])
    assert outcome.finished


def test_an_open_load_without_requests_ends_at_once():
    trace = plain_trace(kernels=10, device_ns=1e6)
    outcome = simulate([Player(trace, outstanding=0, arrivals_ns=np.empty(0, np.int64))], window_end_ns=1e7)
    assert outcome.finished
    assert outcome.requests[0].done.size == 0


def test_overload_ends_at_the_deadline_with_the_rest_unserved():
    due = np.arange(0, 10_000_000, 100_000, dtype=np.int64)
    trace = plain_trace(kernels=10, device_ns=1e6)
    outcome = simulate([Player(trace, outstanding=0, arrivals_ns=due)], window_end_ns=1e7, deadline_ns=1.2e7)
    assert not outcome.finished
    assert outcome.requests[0].done.size == 11


def test_tenants_done_early_keep_running_as_background_load():
    quick, slow = plain_trace(kernels=10, device_ns=1e6), plain_trace(kernels=10, device_ns=3e7)
    outcome = simulate([Player(quick), Player(slow)], window_end_ns=2e7)
    assert outcome.requests[0].done[-1] > 2e7
    last_due = outcome.requests[1].intended < 2e7
    assert np.all(outcome.requests[1].done[last_due] <= outcome.end_ns)


def test_the_same_seed_gives_identical_results():
    players = [Player(plain_trace(kernels=30, device_ns=2e6, host_ns=2.5e6, occupancy=0.6))] * 3
    first, second, other = (simulate(players, window_end_ns=1e8, host_spread=0.05, seed=seed) for seed in (7, 7, 8))
    for a, b in zip(first.requests, second.requests, strict=True):
        assert a.done.tobytes() == b.done.tobytes()
    assert first.activity.tobytes() == second.activity.tobytes()
    assert first.requests[0].done.tobytes() != other.requests[0].done.tobytes()


def test_draining_the_buffer_changes_nothing(monkeypatch):
    players = [Player(plain_trace(kernels=20, device_ns=2e6, host_ns=1e6, occupancy=0.7))] * 3
    slices = Slicing(5e5, 5e4, 1e4)
    for slicing in (None, slices):
        whole = simulate(players, window_end_ns=1e8, slicing=slicing, host_spread=0.05)
        for rows in (1, 5):
            monkeypatch.setattr(simulating, "BUFFER_ROWS", rows)
            pieces = simulate(players, window_end_ns=1e8, slicing=slicing, host_spread=0.05)
            monkeypatch.undo()
            for a, b in zip(whole.requests, pieces.requests, strict=True):
                assert b.done == pytest.approx(a.done, abs=1.0)


def test_all_host_times_of_a_request_are_longer_or_shorter_by_the_same_factor():
    device = plain_trace(kernels=1, device_ns=1.0)
    nothing = np.zeros(1)
    launching = replace(device, launch_ns=nothing + 1e6)
    preparing = replace(device, launch_ns=nothing, before_ns=1e6)
    closing = replace(device, launch_ns=nothing, after_ns=1e6)
    took = []
    for trace in (launching, preparing, closing):
        requests = simulate([Player(trace)], window_end_ns=1e8, host_spread=0.2).requests[0]
        took.append(requests.done - requests.started)
    assert np.std(took[0]) == pytest.approx(2e5, rel=0.2)
    assert took[1] == pytest.approx(took[0], rel=1e-6)
    assert took[2] == pytest.approx(took[0], rel=1e-6)


def test_stages_end_in_order_and_the_first_output_comes_with_its_kernel():
    trace = Trace(
        duration_ns=np.full(6, 1e6),
        occupancy=np.ones(6),
        dram=np.zeros(6),
        tensor=np.zeros(6),
        launch_ns=np.zeros(6),
        slot=np.array([0, 0, 1, 1, 1, 2]),
        block_ns=np.full(6, 1e5),
        holds=np.ones(6),
        waited=np.zeros(6),
        before_ns=1e5,
        after_ns=2e5,
    )
    outcome = simulate([Player(trace, first_output=4)], window_end_ns=1e6, deadline_ns=1e8)
    requests = outcome.requests[0]
    assert requests.slot_ends[0] == pytest.approx([1e5, 2.1e6, 5.1e6, 6.1e6, 6.3e6])
    assert requests.first[0] == pytest.approx(5.1e6)
    assert requests.device[0] == pytest.approx(6e6)


def test_activity_is_the_share_that_was_used():
    trace = plain_trace(kernels=10, device_ns=5e6, occupancy=0.5, dram=0.25)
    outcome = simulate([Player(trace, sm_part=0.5, dram_part=0.5)], window_end_ns=1e9)
    assert outcome.activity[:9] == pytest.approx(np.tile([1.0, 0.25, 0.0, 0.125], (9, 1)), rel=1e-3)


def test_turns_add_the_cost_of_switching():
    full = plain_trace(kernels=400, device_ns=5e7)
    outcome = simulate([Player(full)] * 3, window_end_ns=2e9, slicing=Slicing(2e6, 2e5, 1e4))
    for requests in outcome.requests:
        assert np.mean(np.diff(requests.done)) == pytest.approx(3 * 5e7 * 1.1, rel=0.02)


def test_a_tenant_alone_pays_no_switching_cost():
    full = plain_trace(kernels=400, device_ns=5e7)
    outcome = simulate([Player(full)], window_end_ns=5e8, slicing=Slicing(2e6, 2e5, 1e4))
    assert np.diff(outcome.requests[0].done) == pytest.approx(5e7)


@pytest.mark.parametrize("wrong", [{"duration_ns": np.zeros(1)}, {"occupancy": np.array([1.5])}, {"dram": np.ones(2)}])
def test_an_invalid_trace_is_refused(wrong):
    good = {name: np.ones(1) for name in _COLUMNS}
    with pytest.raises(ValueError, match="kernel"):
        Trace(**{**good, "slot": np.zeros(1, np.int64), **wrong})


def test_a_request_whose_input_is_copied_first_waits_for_two_turns():
    """The host continues when the copy is done: beside a busy tenant, copy and kernels take a turn each."""
    busy = plain_trace(kernels=1000, device_ns=1e9)
    plain = plain_trace(kernels=10, device_ns=1e5, host_ns=1e4)
    copied = replace(plain, waited=np.array([1.0] + [0.0] * 9))
    turns = Slicing(slice_ns=2e6, interrupt_ns=0.0, yield_ns=0.0)

    def mean_ns(trace):
        outcome = simulate([Player(trace), Player(busy)], window_end_ns=1e8, deadline_ns=1e9, slicing=turns)
        return float(np.mean(outcome.requests[0].done - outcome.requests[0].started))

    assert mean_ns(plain) == pytest.approx(2.1e6, rel=0.05)
    assert mean_ns(copied) == pytest.approx(4.1e6, rel=0.05)


@pytest.mark.parametrize(("occupancy", "blocks"), [(0.05, 0.05), (0.2, 0.2), (0.5, 0.5), (1.0, 0.5)])
def test_a_kernel_waits_until_enough_thread_blocks_of_the_others_have_ended(occupancy, blocks):
    """They end one after another: a small kernel needs few of them. Priority doesn't end them earlier."""
    large = plain_trace(kernels=100, device_ns=1e8)
    small = plain_trace(kernels=10, device_ns=1e3, occupancy=occupancy, host_ns=1e7)

    def waited_ns(priority):
        alone = simulate([Player(small)], window_end_ns=1e8)
        players = [Player(small, priority=priority), Player(large)]
        beside = simulate(players, window_end_ns=1e8, deadline_ns=1e9)
        took = [float(np.mean(outcome.requests[0].done - outcome.requests[0].started)) for outcome in (alone, beside)]
        return took[1] - took[0]

    assert waited_ns(1) == pytest.approx(blocks * large.block_ns[0], rel=0.02)
    assert waited_ns(0) == pytest.approx(waited_ns(1), rel=0.02)


def test_a_kernel_that_fits_beside_the_others_does_not_wait():
    half = plain_trace(kernels=100, device_ns=1e8, occupancy=0.5)
    small = plain_trace(kernels=10, device_ns=1e5, occupancy=0.4, host_ns=1e7)
    alone, beside = (
        simulate(players, window_end_ns=1e8, deadline_ns=1e9)
        for players in ([Player(small)], [Player(small), Player(half)])
    )
    took = [float(np.mean(outcome.requests[0].done - outcome.requests[0].started)) for outcome in (alone, beside)]
    assert took[1] == pytest.approx(took[0], rel=1e-6)


def test_sms_go_to_kernels_in_proportion_to_the_thread_blocks_they_have_left():
    fine = plain_trace(kernels=1, device_ns=1e8)
    coarse = replace(fine, block_ns=fine.duration_ns)
    outcome = simulate([Player(fine), Player(coarse)], window_end_ns=1e8)
    assert outcome.requests[0].done[0] == pytest.approx(1e8 / 0.8, rel=0.01), "it has four blocks to the other's one"


def test_streams_of_one_host_end_while_kernels_wait_for_thread_blocks():
    """A launched kernel that waits for room must not stop the clock of its shared host."""
    trace = plain_trace(kernels=20, device_ns=2e5, occupancy=0.9, host_ns=4e4)
    outcome = simulate([Player(trace, shared_host=True) for _ in range(3)], window_end_ns=5e6)
    assert all(requests.done.size > 3 for requests in outcome.requests)


def test_instances_that_share_nothing_are_simulated_one_by_one_with_the_same_outcome(monkeypatch):
    players = [
        Player(plain_trace(kernels=7, device_ns=1e6, occupancy=0.5, host_ns=0.6e6), sm_domain=0, dram_domain=0),
        Player(plain_trace(kernels=5, device_ns=2e6, host_ns=3e6), sm_domain=1, dram_domain=1, sm_part=0.4),
    ]
    alone_at_a_time = []
    engine = simulating._simulate

    def watched(players, **options):
        alone_at_a_time.append(len(players))
        return engine(players, **options)

    monkeypatch.setattr(simulating, "_simulate", watched)
    options = {"window_end_ns": 1e8, "host_spread": 0.1, "seed": 3, "period_ns": 1e7}
    apart = simulate(players, **options)
    assert alone_at_a_time == [1, 1]
    monkeypatch.setattr(simulating, "_apart", lambda players: False)
    joined = simulate(players, **options)
    for requests, other in zip(apart.requests, joined.requests, strict=True):
        inside = other.intended < 1e8
        assert requests.done == pytest.approx(other.done[inside], abs=1)
    assert apart.activity[:9, 1:] == pytest.approx(joined.activity[:9, 1:], abs=1e-6)
    assert apart.activity[:9, 0] == pytest.approx(joined.activity[:9, 0], abs=0.1)


@pytest.mark.parametrize("shared", [{"sm_domain": 0}, {"dram_domain": 0}, {"shared_host": True}])
def test_tenants_that_share_anything_are_simulated_together(shared):
    trace = plain_trace(kernels=5, device_ns=1e6, host_ns=1e6)
    one = {"sm_domain": 0, "dram_domain": 0}
    players = [Player(trace, **one), Player(trace, **({"sm_domain": 1, "dram_domain": 1} | shared))]
    assert not simulating._apart(players)


def test_tenants_whose_requests_never_overlap_run_as_if_each_were_alone():
    trace = replace(plain_trace(kernels=50, device_ns=1e6, host_ns=4e5), slot=np.repeat([0, 1], 25))
    early = Player(trace, outstanding=0, arrivals_ns=np.arange(0, 40_000_000, 4_000_000), first_output=10)
    late = replace(early, arrivals_ns=early.arrivals_ns + 2_000_000)
    both = simulate([early, late], window_end_ns=4e7, period_ns=3e5)
    for player, together in zip((early, late), both.requests, strict=True):
        alone = simulate([player], window_end_ns=4e7, period_ns=3e5).requests[0]
        assert together.done - together.started == pytest.approx(alone.done - alone.started)
        assert together.first - together.started == pytest.approx(alone.first - alone.started)
        assert together.device == pytest.approx(alone.device)
    lengths = np.diff(np.append(np.arange(len(both.activity)) * both.period_ns, both.end_ns))
    assert (both.activity[:, 1] * lengths).sum() == pytest.approx(20 * 1e6)


def test_a_kernel_that_starts_beside_a_lone_tenant_slows_it_from_then_on():
    alone = Player(plain_trace(kernels=20, device_ns=1e7))
    due = 2_250_000
    other = Player(plain_trace(kernels=1, device_ns=1e6), outstanding=0, arrivals_ns=np.array([due]))
    both = simulate([alone, other], window_end_ns=1e7)
    assert both.requests[1].done[0] - due > 1.5e6
    assert both.requests[0].done[0] == pytest.approx(1.1e7, rel=0.02)
