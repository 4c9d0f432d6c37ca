import math

import pytest

from cotenant.scheduling import BatchCurve, TenantCosts, chunk_cost
from cotenant.scheduling.correction import CostEstimate, DeviceSpeed


def estimate(chunks=2, cold=1.5):
    speed = DeviceSpeed()
    costs = TenantCosts((chunk_cost(0.010, spread=0.1, cold=cold),) * chunks, BatchCurve((1.0, 1.6)))
    return CostEstimate(costs, speed), speed


def see(costs, index, took, times, *, spaced=False, batch=1, since=0.0):
    for place in range(times):
        began = since + place * took
        costs.see(index, 0, batch, 1.0, began=began, ended=began + took, spaced=spaced)
    return since + times * took


def test_a_device_twice_as_slow_is_noticed_within_a_few_chunks_by_all_tenants():
    costs, speed = estimate()
    other = CostEstimate(TenantCosts((chunk_cost(0.030),)), speed)
    see(costs, 0, 0.020, 4)
    assert speed.pace == pytest.approx(2.0, rel=0.2)
    assert other.chunk_s(0, 0, 1, 1.0, spaced=False) == pytest.approx(0.060, rel=0.2)


def test_a_slowdown_is_a_burst_until_it_has_lasted_five_seconds():
    costs, speed = estimate()
    other = CostEstimate(TenantCosts((chunk_cost(0.030),)), speed)
    now = see(costs, 0, 0.020, 200)
    assert other.request_s(1.0, 0) == pytest.approx(0.030, rel=0.1)
    see(costs, 0, 0.020, 60, since=now)
    assert speed.burst == 0.0
    assert other.request_s(1.0, 0) == pytest.approx(0.060, rel=0.1)


def test_a_single_quick_chunk_ends_a_burst():
    costs, speed = estimate()
    now = see(costs, 0, 0.020, 6)
    assert speed.burst > 0.5
    see(costs, 0, 0.010, 1, since=now)
    assert speed.burst == 0.0
    assert speed.pace == pytest.approx(1.0, rel=0.1)


def test_in_a_burst_a_deadline_loses_the_time_that_the_burst_is_expected_to_take():
    costs, speed = estimate()
    assert speed.horizon(0.0) is None
    now = see(costs, 0, 0.020, 6)
    horizon = speed.horizon(now)
    near, far, farther = (now + wait - horizon(now + wait) for wait in (0.02, 2.0, 20.0))
    assert near == pytest.approx(0.01, rel=0.15)  # at half speed
    assert far == pytest.approx(farther, rel=0.01)  # it will have ended
    assert 0.1 < far < 0.25  # of a burst of .2 s and what it has lasted, half is lost
    assert horizon(now) == now


def test_a_burst_is_expected_to_last_as_long_as_earlier_ones():
    losses = {}
    for length in (5, 100):
        costs, speed = estimate()
        now = 0.0
        for _ in range(8):
            now = see(costs, 0, 0.020, length, since=now)
            now = see(costs, 0, 0.010, 20, since=now)
        now = see(costs, 0, 0.020, 5, since=now)
        losses[length] = now + 10 - speed.horizon(now)(now + 10)
    assert losses[5] == pytest.approx(0.5 * 0.12, rel=0.4)
    assert losses[100] == pytest.approx(0.5 * 2.0, rel=0.4)


def test_a_burst_of_an_idle_device_is_over_once_it_would_have_been():
    costs, speed = estimate()
    now = see(costs, 0, 0.020, 6)
    speed.fade(now, now + 0.05)
    assert speed.burst > 0.5
    speed.fade(now, now + 1.0)
    assert speed.burst == 0.0


def test_time_lost_to_stalls_is_remembered_for_about_ten_seconds():
    costs, speed = estimate()
    now = see(costs, 0, 0.010, 100)
    assert speed.jitter == 0.0
    now = see(costs, 0, 0.018, 1, since=now)
    stalled = speed.jitter
    assert stalled == pytest.approx(0.008**2 / 10, rel=0.1)  # squared loss over the time constant
    see(costs, 0, 0.010, 1000, since=now)
    assert speed.jitter == pytest.approx(stalled / math.e, rel=0.05)


def test_one_outlier_moves_the_speed_little():
    costs, speed = estimate()
    see(costs, 0, 0.010, 5)
    see(costs, 0, 0.040, 1)
    assert speed.factor < 1.2


def test_a_chunk_costlier_than_stated_is_distinguished_from_a_slow_device():
    costs, _ = estimate()
    for _ in range(400):
        see(costs, 0, 0.010, 1)
        see(costs, 1, 0.014, 1)
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
    now = see(costs, 0, 0.020, 300)
    slow = speed.factor
    speed.fade(now, now + 0.5)
    assert 1.5 < speed.factor < slow
    speed.fade(now, now + 50.0)
    assert speed.factor == pytest.approx(1.0, abs=0.01)
