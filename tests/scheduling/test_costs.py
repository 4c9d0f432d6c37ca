"""Costs of chunks, requests and batches, by hand."""

import math

import pytest

from cotenant.errors import SchedulingError
from cotenant.scheduling.costs import BatchCurve, ChunkCost, TenantCosts, chunk_cost, some_batches


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
