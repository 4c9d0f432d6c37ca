import math

import pytest

from cotenant.scheduling import BatchCurve, TenantCosts, chunk_cost
from cotenant.scheduling.correction import CostEstimate, DeviceSpeed


def estimate(chunks=2, cold=1.5):
    speed = DeviceSpeed()
    costs = TenantCosts((chunk_cost(0.010, spread=0.1, cold=cold),) * chunks, BatchCurve((1.0, 1.6)))
    return CostEstimate(costs, speed), speed


def see(costs, index, took, times, *, spaced=False, batch=1):
    for _ in range(times):
        costs.see(index, 0, batch, 1.0, took, spaced=spaced)


def test_a_device_twice_as_slow_is_noticed_within_a_few_chunks_by_all_tenants():
    costs, speed = estimate()
    other = CostEstimate(TenantCosts((chunk_cost(0.030),)), speed)
    see(costs, 0, 0.020, 4)
    assert speed.factor == pytest.approx(2.0, rel=0.2)
    assert other.request_s(1.0, 0) == pytest.approx(0.060, rel=0.2)


def test_one_outlier_moves_the_speed_little():
    costs, speed = estimate()
    see(costs, 0, 0.010, 5)
    see(costs, 0, 0.040, 1)
    assert speed.factor < 1.2


def test_a_chunk_costlier_than_stated_is_distinguished_from_a_slow_device():
    costs, _ = estimate()
    for _ in range(400):
        costs.see(0, 0, 1, 1.0, 0.010, spaced=False)
        costs.see(1, 0, 1, 1.0, 0.014, spaced=False)
    assert costs.chunk_s(0, 0, 1, 1.0, spaced=False) == pytest.approx(0.010, rel=0.05)
    assert costs.chunk_s(1, 0, 1, 1.0, spaced=False) == pytest.approx(0.014, rel=0.05)


def test_chunks_after_a_gap_only_update_the_spaced_cost():
    costs, speed = estimate()
    see(costs, 0, 0.030, 50, spaced=True)
    assert speed.factor == 1.0
    assert costs.chunk_s(0, 0, 1, 1.0, spaced=False) == pytest.approx(0.010)
    assert costs.chunk_s(0, 0, 1, 1.0, spaced=True) == pytest.approx(0.030, rel=0.02)


def test_a_batch_is_learnt_from_by_its_cost_over_one():
    costs, speed = estimate()
    see(costs, 0, 0.016, 20, batch=2)
    assert speed.factor == pytest.approx(1.0)


def test_the_spread_of_many_chunks_adds_in_quadrature():
    costs, _ = estimate(chunks=4)
    assert math.sqrt(costs.rest_variance[0]) == pytest.approx(0.002)
    assert math.sqrt(costs.rest_variance[3]) == pytest.approx(0.001)


def test_a_chunk_stopped_for_seconds_counts_at_most_as_twice_as_slow():
    costs, speed = estimate()
    see(costs, 0, 30.0, 1)
    assert speed.factor < 1.1
    assert costs.chunk_s(0, 0, 1, 1.0, spaced=False) < 0.012


def test_on_an_idle_device_a_learnt_speed_is_forgotten():
    costs, speed = estimate()
    see(costs, 0, 0.020, 6)
    slow = speed.factor
    speed.fade(10.0, 10.5)
    assert 1.5 < speed.factor < slow
    speed.fade(10.0, 60.0)
    assert speed.factor == pytest.approx(1.0, abs=0.01)
