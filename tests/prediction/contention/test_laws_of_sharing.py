"""The sharing law: invariants for any kernels on any device, whatever the constants."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.prediction.contention.layout import Slicing
from cotenant.prediction.contention.rates import fill_rates
from cotenant.prediction.contention.simulation import Outcome, Player, simulate
from cotenant.prediction.contention.state import COLUMNS, DRAM, DRAM_DOMAIN, FRESH, OCCUPANCY, SM_DOMAIN, WEIGHT
from cotenant.prediction.contention.trace import Trace, plain_trace

TURNS = Slicing(slice_ns=2e6, interrupt_ns=2e5, yield_ns=1e4)
shares = st.floats(0.01, 1.0)
residents = st.lists(st.tuples(shares, st.floats(0.0, 1.0)), min_size=1, max_size=8)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    return plain_trace(
        kernels=draw(st.integers(1, 20)),
        device_ns=draw(st.floats(1e5, 5e6)),
        occupancy=draw(st.floats(0.05, 1.0)),
        dram=draw(st.floats(0.0, 1.0)),
        host_ns=draw(st.floats(0.0, 5e6)),
    )


def together(players: list[Player], *, window_ns: float = 2e8, **options: object) -> Outcome:
    return simulate(players, window_end_ns=window_ns, deadline_ns=50 * window_ns, **options)


def per_request(outcome: Outcome) -> list[float]:
    return [float((requests.done[-1] - requests.done[1]) / (requests.done.size - 2)) for requests in outcome.requests]


def rates(
    occupancy: np.ndarray, dram: np.ndarray, *, sm_domain: np.ndarray | int = 0, dram_domain: np.ndarray | int = 0
) -> np.ndarray:
    """Speeds of resident kernels of equal weight and priority."""
    state = np.zeros((occupancy.size, COLUMNS))
    state[:, OCCUPANCY], state[:, DRAM], state[:, WEIGHT] = occupancy, dram, 1.0
    state[:, SM_DOMAIN], state[:, DRAM_DOMAIN] = sm_domain, dram_domain
    crowded = fill_rates(occupancy.size, np.arange(occupancy.size), state)
    return np.asarray(state[:, FRESH]) if crowded else np.ones(occupancy.size)


def speeds(kernels: list[tuple[float, float]]) -> np.ndarray:
    return rates(np.array([occupancy for occupancy, _ in kernels]), np.array([dram for _, dram in kernels]))


@given(residents)
def test_no_kernel_is_faster_than_alone_and_nothing_is_assigned_twice(kernels):
    found = speeds(kernels)
    assert np.all(found >= 0)
    assert np.all(found <= 1)
    for resource in range(2):
        assert sum(speed * kernel[resource] for speed, kernel in zip(found, kernels, strict=True)) <= 1 + 1e-9


@given(residents)
def test_work_is_conserved_while_kernels_wait_for_sms(kernels):
    """If a kernel waits for SMs and none for DRAM, all SMs are taken."""
    found = speeds([(occupancy, 0.0) for occupancy, _ in kernels])
    if np.any(found < 1 - 1e-12):
        assert sum(speed * occupancy for speed, (occupancy, _) in zip(found, kernels, strict=True)) == pytest.approx(1)


@given(residents, st.tuples(shares, st.floats(0.0, 1.0)))
def test_one_more_kernel_never_leaves_another_more_sms(kernels, newcomer):
    """Only bandwidth can be passed on: a kernel that loses SMs uses less of it."""
    before, after = (speeds([(occupancy, 0.0) for occupancy, _ in some]) for some in (kernels, [*kernels, newcomer]))
    assert np.all(after[:-1] <= before + 1e-9)


@given(residents)
def test_kernels_in_separate_partitions_do_not_interact(kernels):
    occupancy, dram = np.array(kernels).T.copy()
    apart = np.arange(len(kernels))
    assert np.all(rates(occupancy, dram, sm_domain=apart, dram_domain=apart) == 1)


@given(st.integers(2, 6))
def test_separate_sms_still_share_dram(count):
    """Green contexts split SMs, not DRAM: tenants that want all of it get an even part each."""
    found = rates(np.ones(count), np.ones(count), sm_domain=np.arange(count))
    assert found == pytest.approx(np.full(count, 1 / count))


def test_kernels_share_sms_evenly_and_small_demands_are_met():
    assert speeds([(0.75, 0.0), (0.5, 0.0), (0.1, 0.0)]) == pytest.approx([0.45 / 0.75, 0.45 / 0.5, 1.0])


def test_small_bandwidth_demands_are_met():
    assert speeds([(0.3, 0.2), (0.3, 0.9), (0.3, 0.9)]) == pytest.approx([1.0, 0.4 / 0.9, 0.4 / 0.9])


@settings(max_examples=25)
@given(traces(), st.integers(1, 4))
def test_copies_slow_each_other_down_and_more_copies_more(trace, copies):
    fewer = np.mean(per_request(together([Player(trace)] * copies, host_spread=0.02)))
    more = np.mean(per_request(together([Player(trace)] * (copies + 1), host_spread=0.02)))
    alone = np.mean(per_request(together([Player(trace)], host_spread=0.02)))
    assert fewer >= alone * 0.98  # within the spread of host times
    assert more >= fewer * 0.98


@settings(max_examples=25)
@given(traces(), traces())
def test_no_tenant_gains_from_neighbours(one, other):
    alone = [per_request(together([Player(trace)]))[0] for trace in (one, other)]
    assert np.all(np.array(per_request(together([Player(one), Player(other)]))) >= np.array(alone) * 0.999)


@settings(max_examples=25)
@given(st.lists(traces(), min_size=1, max_size=4))
def test_total_work_never_exceeds_the_device(mix):
    outcome = together([Player(trace) for trace in mix])
    done = sum(
        requests.done.size * float(trace.duration_ns @ trace.occupancy) for requests, trace in _pairs(outcome, mix)
    )
    assert done <= outcome.end_ns * (1 + 1e-6)
    assert np.all(outcome.activity[:, :2] <= 1 + 1e-6)


@settings(max_examples=25)
@given(st.lists(traces(), min_size=2, max_size=4))
def test_in_turns_the_device_serves_one_at_a_time(mix):
    outcome = together([Player(trace) for trace in mix], slicing=TURNS)
    done = sum(requests.done.size * trace.device_ns for requests, trace in _pairs(outcome, mix))
    assert done <= outcome.end_ns * (1 + 1e-6)


@pytest.mark.parametrize("copies", [2, 3, 5])
def test_copies_of_a_kernel_that_fills_the_device_share_it_evenly(copies):
    """A saturating kernel shared by two takes 2x, by n tenants n x."""
    full = plain_trace(kernels=50, device_ns=5e6, occupancy=1.0, host_ns=1e5)
    alone = per_request(together([Player(full)]))[0]
    assert np.array(per_request(together([Player(full)] * copies))) / alone == pytest.approx(copies, rel=0.05)


def test_different_kinds_hurt_each_other_less_than_two_of_a_kind():
    """With half of the SMs each, as under `mps: [50, 50]`."""
    arithmetic = plain_trace(kernels=40, device_ns=4e6, occupancy=0.5, dram=0.1)
    memory = plain_trace(kernels=40, device_ns=4e6, occupancy=0.5, dram=0.9)
    of_a_kind = per_request(together([Player(memory)] * 2))[0]
    mixed = per_request(together([Player(memory), Player(arithmetic)]))
    assert of_a_kind > 1.5 * memory.device_ns
    assert max(mixed) < 1.05 * memory.device_ns


@settings(max_examples=20)
@given(traces(), traces())
def test_tenants_on_separate_instances_do_not_interact(one, other):
    apart = [Player(one), Player(other, sm_domain=1, dram_domain=1)]
    alone = [per_request(together([Player(trace)]))[0] for trace in (one, other)]
    assert per_request(together(apart)) == pytest.approx(alone, rel=1e-6)


def test_small_kernels_wait_for_blocks_of_large_kernels_not_for_their_end():
    """A small model suffers more beside a large one than the reverse."""
    small = plain_trace(kernels=100, device_ns=1e6, occupancy=1.0)
    large = plain_trace(kernels=100, device_ns=1e7, occupancy=1.0)
    times = per_request(together([Player(small), Player(large)]))
    assert 2 < times[0] / small.device_ns < 11
    assert 1 < times[1] / large.device_ns < times[0] / small.device_ns


def test_a_shared_launch_thread_is_a_bottleneck():
    waiting = plain_trace(kernels=50, device_ns=5e5, occupancy=0.1, host_ns=5e6)
    apart = per_request(together([Player(waiting)] * 2))[0]
    shared = per_request(together([Player(waiting, shared_host=True)] * 2))[0]
    assert shared == pytest.approx(2 * apart, rel=0.05)


def test_a_higher_priority_goes_first():
    work = plain_trace(kernels=100, device_ns=4e6, occupancy=1.0, host_ns=5e6)
    equal = per_request(together([Player(work), Player(work)]))
    ranked = per_request(together([Player(work), Player(work, priority=1)]))
    assert ranked[1] < equal[1]
    assert ranked[0] > ranked[1]


def _pairs(outcome: Outcome, mix: list[Trace]) -> list:
    return list(zip(outcome.requests, mix, strict=True))
