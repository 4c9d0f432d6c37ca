"""The closed form of contention: invariants of any law of sharing, and agreement with the event simulation."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from benchmarks.contention import WAYS, agreement
from cotenant.prediction.contention.closed_form import Terms, slowdowns
from cotenant.prediction.contention.demand import demands_of
from cotenant.prediction.contention.layout import TURNS, Slicing
from cotenant.prediction.contention.trace import plain_trace
from cotenant.prediction.interference.setting import by_victim, every_mix, mixes_of

FREE_TURNS = Slicing(slice_ns=1e6, interrupt_ns=0.0, yield_ns=0.0)
FULL = plain_trace(kernels=200, device_ns=1e7)
SMALL = plain_trace(kernels=200, device_ns=1e7, occupancy=0.3, dram=0.2)
HOSTED = plain_trace(kernels=200, device_ns=2e6, host_ns=1e7)


def slowed(traces, mixes, slicing=None):
    return slowdowns(demands_of(traces), mixes_of(mixes), Terms(slicing))


def test_a_tenant_alone_is_not_slowed_down():
    assert slowed([FULL], [(0,)]) == pytest.approx(1.0)


def test_equal_tenants_that_fill_the_device_share_it_evenly():
    assert slowed([FULL], [(0, 0)])[0] == pytest.approx([2.0, 2.0], rel=0.1)
    assert slowed([FULL], [(0, 0, 0)])[0] == pytest.approx([3.0] * 3, rel=0.1)


def test_small_kernels_pass_each_other_where_kernels_run_side_by_side_but_not_in_turns():
    assert slowed([SMALL], [(0, 0)])[0] == pytest.approx([1.0, 1.0], abs=0.02)
    assert slowed([SMALL], [(0, 0)], FREE_TURNS)[0] == pytest.approx([2.0, 2.0], rel=0.02)


def test_a_host_bound_tenant_is_hardly_slowed_down():
    victim = slowed([HOSTED, FULL], [(0, 1)])[0, 0]
    beside_itself = slowed([FULL, FULL], [(0, 1)])[0, 0]
    assert 1.0 <= victim < 0.75 * beside_itself


def test_mixes_of_different_sizes_come_in_one_array():
    found = slowed([FULL, SMALL], [(0, 1), (0, 1, 1)])
    assert np.isnan(found).tolist() == [[False, False, True], [False, False, False]]


def test_one_more_neighbour_never_helps():
    traces = [FULL, HOSTED, plain_trace(kernels=50, device_ns=5e6, occupancy=0.8, dram=0.5, host_ns=1e6)]
    for law in (None, TURNS):
        pair = slowed(traces, [(0, 1)], law)[0]
        group = slowed(traces, [(0, 1, 2)], law)[0]
        assert (group[:2] >= pair - 1e-6).all()


@pytest.mark.parametrize("way", WAYS)
def test_it_agrees_with_the_event_simulation_on_random_mixes(way):
    found = agreement(way, mixes=6, seed=4)
    assert found.median <= 0.08
    assert found.nine_in_ten <= 0.25


@pytest.mark.parametrize("terms", [Terms(), Terms(shared_host=True), Terms(TURNS)])
def test_the_order_of_tenants_changes_nothing_and_equal_ones_get_the_same(terms):
    traces = [FULL, HOSTED, SMALL, plain_trace(kernels=60, device_ns=6e6, occupancy=0.7, dram=0.6, host_ns=2e6), FULL]
    demands = demands_of(traces)
    rows = np.array(list(permutations(range(5))))
    for load in (0.0, 0.3, 0.6):
        rates = load / demands.alone_ns[rows]
        found = slowdowns(demands, rows, replace(terms, rate_per_ns=rates))
        by_tenant = np.take_along_axis(found, np.argsort(rows, axis=1), axis=1)
        assert (by_tenant == by_tenant[0]).all()
        assert by_tenant[0, 0] == by_tenant[0, 4]


def test_a_neighbour_that_is_rarely_busy_slows_less():
    demands = demands_of([FULL, FULL])
    rare = 0.2 / demands.alone_ns[0]
    busy, idle = (
        slowdowns(demands, np.array([[0, 1]]), Terms(rate_per_ns=np.array([[0.0, rate]])))[0, 0] for rate in (0.0, rare)
    )
    assert 1.1 < idle < 1.5 < busy


def test_tenants_with_parts_of_their_own_do_not_meet():
    own = np.array([[0, 1]])
    apart = slowdowns(demands_of([FULL, FULL]), np.array([[0, 1]]), Terms(sm_domain=own, dram_domain=own))
    assert apart == pytest.approx(1.0)


def test_a_higher_priority_gets_the_device_first():
    found = slowdowns(demands_of([FULL, FULL]), np.array([[0, 1]]), Terms(priority=np.array([[1, 0]])))[0]
    assert found[0] < 1.3 < found[1]


def test_one_thread_that_launches_for_all_slows_tenants_that_wait_for_their_host():
    demands, both = demands_of([HOSTED, HOSTED]), np.array([[0, 1]])
    assert slowdowns(demands, both)[0] == pytest.approx([1.0, 1.0], abs=0.2)
    assert slowdowns(demands, both, Terms(shared_host=True))[0] == pytest.approx([2.0, 2.0], rel=0.1)


def test_every_victim_of_every_mix_has_a_row_followed_by_its_neighbours():
    which, place, rows = by_victim(mixes_of([(3, 5), (1, 2, 4)]))
    assert which.tolist() == [0, 0, 1, 1, 1]
    assert place.tolist() == [0, 1, 0, 1, 2]
    assert [sorted(row[row >= 0].tolist()) for row in rows] == [[3, 5], [3, 5], [1, 2, 4], [1, 2, 4], [1, 2, 4]]
    assert rows[:, 0].tolist() == [3, 5, 1, 2, 4]


def test_all_mixes_of_a_size_come_once_with_copies():
    assert len(every_mix(4, 2)) == 10
    assert len(every_mix(4, 3)) == 20
    with pytest.raises(ValueError, match="1 to 8"):
        mixes_of([range(9)])
