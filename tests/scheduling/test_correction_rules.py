"""Corrections of a device and of costs, by hand."""

import math

import pytest

from cotenant.scheduling import correction
from cotenant.scheduling.correction import CostEstimate, DeviceSpeed
from cotenant.scheduling.costs import BatchCurve, TenantCosts, chunk_cost


def test_small_surprises_move_the_lasting_speed_a_little():
    speed = DeviceSpeed()
    speed.see(0.25, 1.0, 0.1)
    assert speed.level == pytest.approx(0.08 * 0.25)
    assert speed.factor == pytest.approx(math.exp(0.02))
    assert (speed.burst, speed.jitter, speed.stamp) == (0.0, 0.0, 1)
    assert speed.pace == pytest.approx(speed.factor)


def test_three_large_surprises_are_a_burst_and_two_are_not():
    speed = DeviceSpeed()
    speed.see(0.5, 1.0, 0.1)
    speed.see(0.6, 2.0, 0.1)
    assert (speed.burst, speed.level) == (0.0, pytest.approx(2 * 0.08 * 0.25))
    speed.see(0.4, 3.0, 0.1)
    assert speed.burst == pytest.approx(0.5)
    assert speed.ease == pytest.approx(math.exp(-0.5))
    assert speed.pace == pytest.approx(speed.factor * math.exp(0.5))
    lost = 0.1 * (1 - math.exp(-0.5)), 0.1 * (1 - math.exp(-0.6)), 0.1 * (1 - math.exp(-0.4))
    memory, jitter = math.exp(-0.01), 0.0
    for time in lost:
        jitter = memory * jitter + (1 - memory) * time * time / 0.1
    assert speed.jitter == pytest.approx(jitter)
    speed.see(0.1, 3.1, 0.1)
    assert speed.burst == pytest.approx(0.53)
    speed.see(-0.4, 3.2, 0.1)
    assert speed.burst == 0.0, "less than a jump is left"


def test_surprises_of_both_signs_are_noise_and_faster_thrice_is_lasting():
    speed = DeviceSpeed()
    for surprise in (0.5, -0.5, 0.5, -0.5):
        speed.see(surprise, 1.0, 0.1)
    assert (speed.burst, speed.level) == (0.0, pytest.approx(0.0))
    for surprise in (-0.5, -0.6):
        speed.see(surprise, 1.0, 0.1)
    assert speed.level == pytest.approx(-0.02 - 0.5), "the one before counts as the first of three"
    speed = DeviceSpeed()
    for surprise in (0.5, 0.1, 0.5, 0.5):
        speed.see(surprise, 1.0, 0.1)
    assert speed.burst == 0.0


def in_burst(size=0.5, at=10.0):
    speed = DeviceSpeed()
    for number in range(3):
        speed.see(size, at + 0.1 * number, 0.1)
    return speed


def test_a_burst_that_lasts_is_the_new_speed():
    speed = in_burst()
    level = speed.level
    speed.see(0.0, 10.1 + 5.0, 0.1)
    assert speed.burst == pytest.approx(0.5)
    speed.see(0.0, 10.1 + 5.01, 0.1)
    assert (speed.burst, speed.level) == (0.0, pytest.approx(level + 0.5))


def test_a_burst_takes_time_from_the_horizon():
    assert DeviceSpeed().horizon(1.0) is None
    speed = in_burst()
    mean = 0.2 + (10.2 - 10.1)
    lost = (1 - math.exp(-0.5)) * mean
    horizon = speed.horizon(10.2)
    assert horizon(10.2) == pytest.approx(10.2)
    assert horizon(11.2) == pytest.approx(11.2 - lost * (1 - math.exp(-1 / mean)))
    assert speed.horizon(10.5)(99.0) == pytest.approx(99 - lost * math.exp(-0.3 / mean))
    assert speed.horizon(9.0)(99.0) == pytest.approx(99 - lost)
    assert horizon(5.0) == 5.0


def test_an_idle_device_forgets():
    speed = DeviceSpeed()
    for _ in range(20):
        speed.see(0.2, 1.0, 0.1)
    level = speed.level
    speed.fade(1.0, 6.0)
    assert speed.level == pytest.approx(level / math.e)
    speed.fade(1.0, 6.0)
    assert speed.level == pytest.approx(level / math.e), "only once for the same time"
    speed.fade(1.0, 11.0)
    assert speed.level == pytest.approx(level / math.e**2)
    burst = in_burst()
    burst.fade(10.2, 10.2 + 0.29)
    assert burst.burst == pytest.approx(0.5)
    burst.fade(10.2, 10.2 + 0.31)
    assert burst.burst == 0.0
    again = in_burst()
    again.see(-0.4, 10.4, 0.1)
    for number in range(3):
        again.see(0.5, 20 + 0.1 * number, 0.1)
    mean = (0.9 * (0.2 + 0.4 - 0.1) + (20.2 - 20.1)) / (0.9 * 2)
    lost = (1 - math.exp(-again.burst)) * mean
    assert again.horizon(20.2)(999.0) == pytest.approx(999 - lost)


def estimate(**more):
    return CostEstimate(
        TenantCosts((chunk_cost(0.1, spread=0.2, cold=2.0), chunk_cost(0.3, spread=0.2)), **more), DeviceSpeed()
    )


def test_the_rest_of_a_request_adds_up_from_its_end():
    costs = estimate(step=chunk_cost(0.01), steps=5)
    assert costs.rest_s == pytest.approx([0.4, 0.3, 0.0])
    assert costs.rest_variance == pytest.approx([0.02**2 + 0.06**2, 0.06**2, 0.0])
    assert costs.request_s(2.0, 3) == pytest.approx(0.83)
    assert costs.chunk_s(0, 0, 1, 2.0, spaced=True) == pytest.approx(0.4)
    assert costs.chunk_s(1, 0, 1, 2.0, spaced=False) == pytest.approx(0.6)
    assert costs.chunk_s(0, 4, 1, 2.0, spaced=False) == pytest.approx(0.04)


def test_a_chunk_learns_its_share_and_the_device_the_rest():
    costs = estimate(curve=BatchCurve((1.0, 1.5)))
    costs.see(0, 0, 2, 2.0, began=1.0, ended=1.0 + 0.3 * 1.2, spaced=False)
    surprise = math.log(1.2)
    assert costs.chunks[0].p50_s == pytest.approx(0.1 * math.exp(0.03 * surprise))
    assert costs.speed.level == pytest.approx(0.08 * surprise)
    assert costs.rest_s == pytest.approx([0.3 + costs.chunks[0].p50_s, 0.3, 0.0])
    spread = math.log(1.2) - 0.02 * 0.1
    above = costs.chunks[0].p50_s * math.expm1(spread)
    assert costs.chunks[0].variance == pytest.approx(above**2)
    costs.see(1, 0, 1, 1.0, began=2.0, ended=2.0, spaced=False)
    assert costs.chunks[1].p50_s == 0.3, "a chunk of no time teaches nothing"


def test_a_chunk_after_a_gap_only_learns_its_spaced_cost():
    costs = estimate()
    costs.see(0, 0, 1, 1.0, began=1.0, ended=1.3, spaced=True)
    assert costs.chunks[0].spaced_s == pytest.approx(0.2 * math.exp(0.1 * math.log(1.5)))
    assert (costs.chunks[0].p50_s, costs.speed.level) == (0.1, 0.0)
    costs.see(0, 0, 1, 1.0, began=1.0, ended=99.0, spaced=True)
    assert costs.chunks[0].spaced_s == pytest.approx(0.2 * math.exp(0.1 * (math.log(1.5) + 0.7)))


def test_a_slow_chunk_widens_the_spread_and_single_chunks_count_at_most_twofold():
    costs = estimate(step=chunk_cost(0.01, spread=0.1), steps=5, step_curve=BatchCurve((1.0, 1.2)))
    costs.see(0, 4, 2, 1.0, began=1.0, ended=1.0 + 4 * 0.01 * 1.2 * 9, spaced=False)
    assert costs.step.p50_s == pytest.approx(0.01 * math.exp(0.03 * 0.7))
    assert costs.step.variance == pytest.approx((costs.step.p50_s * math.expm1(math.log(1.1) + 0.02 * 0.9)) ** 2)
    assert costs.rest_s == pytest.approx([0.4, 0.3, 0.0])
    assert (correction.JUMP_LENGTH, correction.MOST, correction.LASTING_S) == (3, 0.7, 5.0)
