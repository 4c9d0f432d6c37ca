"""The closed-form prior: invariants of any sharing law, and agreement with the event engine."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import spearmanr

from cotenant.prediction.interference.fluid import in_turns, side_by_side
from cotenant.prediction.interference.gpu_profiles import profiles_of
from cotenant.prediction.interference.mixes import by_victim, every_mix, mixes_of
from cotenant.prediction.sharing.simulate import Player, simulate
from cotenant.prediction.sharing.trace import plain_trace
from cotenant.prediction.sharing.turns import Slicing
from validation.interference.anatomy import TYPICAL, Anatomy

FULL = plain_trace(kernels=200, device_ns=1e7)
SMALL = plain_trace(kernels=200, device_ns=1e7, occupancy=0.3, dram=0.2)
HOSTED = plain_trace(kernels=200, device_ns=2e6, host_ns=1e7)


def slowdowns(traces, mixes, law=side_by_side):
    solo = [max(trace.device_ns, trace.host_ns) for trace in traces]
    return np.exp(law(profiles_of(traces, solo), mixes_of(mixes)))


def test_a_tenant_alone_is_not_slowed_down():
    assert slowdowns([FULL], [(0,)]) == pytest.approx(1.0)


def test_equal_tenants_that_fill_the_device_share_it_evenly():
    assert slowdowns([FULL], [(0, 0)])[0] == pytest.approx([2.0, 2.0], rel=0.1)
    assert slowdowns([FULL], [(0, 0, 0)])[0] == pytest.approx([3.0] * 3, rel=0.1)


def test_small_kernels_pass_each_other_where_kernels_run_side_by_side_but_not_in_turns():
    assert slowdowns([SMALL], [(0, 0)])[0] == pytest.approx([1.0, 1.0], abs=0.02)
    assert slowdowns([SMALL], [(0, 0)], in_turns)[0] == pytest.approx([2.0, 2.0], rel=0.02)


def test_a_host_bound_tenant_is_hardly_slowed_down():
    victim = slowdowns([HOSTED, FULL], [(0, 1)])[0, 0]
    beside_itself = slowdowns([FULL, FULL], [(0, 1)])[0, 0]
    assert 1.0 <= victim < 0.75 * beside_itself


def test_mixes_of_different_sizes_come_in_one_array():
    found = slowdowns([FULL, SMALL], [(0, 1), (0, 1, 1)])
    assert np.isnan(found).tolist() == [[False, False, True], [False, False, False]]


def test_one_more_neighbour_never_helps():
    traces = [FULL, HOSTED, plain_trace(kernels=50, device_ns=5e6, occupancy=0.8, dram=0.5, host_ns=1e6)]
    for law in (side_by_side, in_turns):
        pair = slowdowns(traces, [(0, 1)], law)[0]
        group = slowdowns(traces, [(0, 1, 2)], law)[0]
        assert (group[:2] >= pair - 1e-6).all()


PAIRED = ((10.0, 3.0, 400), (3.0, 9.0, 300), (40.0, 5.0, 900), (15.0, 12.0, 150))
"""Device ms, host ms and number of kernels of the requests to pair."""


def test_in_turns_it_agrees_with_the_event_engine():
    fluid, engine = _pairs(in_turns, Slicing(slice_ns=1e6, interrupt_ns=0.0, yield_ns=0.0))
    assert np.abs(np.log(fluid / engine)).mean() < 0.06


def test_side_by_side_it_ranks_slowdowns_like_the_event_engine():
    fluid, engine = _pairs(side_by_side, None)
    assert spearmanr(fluid, engine).statistic > 0.75


def _pairs(law, slicing):
    """Slowdowns of every tenant of every pair by closed form and by the engine."""
    traces = [_drained(device=device, host=host, kernels=kernels) for device, host, kernels in PAIRED]
    fluid, engine = [], []
    for both in combinations(traces, 2):
        outcome = simulate([Player(one) for one in both], window_end_ns=1e9, slicing=slicing, host_spread=0.03)
        alone = [max(one.device_ns, one.host_ns) for one in both]
        engine += [np.diff(one.done).mean() / time for one, time in zip(outcome.requests, alone, strict=True)]
        fluid += slowdowns(list(both), [(0, 1)], law)[0].tolist()
    return np.array(fluid), np.array(engine)


def _drained(*, device, host, kernels):
    """A request whose kernels work, then start and drain, in milliseconds."""
    anatomy = Anatomy(host=(host, 0.0), device=(0.0, device), fixed=TYPICAL[:2], sm_bound=TYPICAL[2:])
    return anatomy.trace(1, unit_ns=1e6, kernels=kernels)


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
