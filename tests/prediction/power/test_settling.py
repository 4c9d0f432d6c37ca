"""Steady states: limits hold, higher limits never hurt, heat never helps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.devices.simulated.catalogue import find_gpu, gpu_names
from cotenant.errors import DeviceError
from cotenant.prediction.power.dies import TYPICAL, Die, Dies, draw_die, fleet
from cotenant.prediction.power.draw import FULL, Activity
from cotenant.prediction.power.settling import REGULATED, Limits, settle, settle_fleet, shown_clock_mhz

V100 = find_gpu("v100-sxm2-16gb")
activities = st.builds(Activity, compute=st.floats(0.0, 1.0), memory=st.floats(0.0, 1.0))
limits_w = st.floats(150.0, 300.0)
clocks_mhz = st.floats(135.0, 1530.0)


def test_a_typical_v100_under_sgemm_settles_where_longhorns_do():
    settled = settle(V100, FULL)
    assert settled.clock_mhz == pytest.approx(1365, abs=5)
    assert settled.power_w == pytest.approx(297.1, abs=0.5)
    assert settled.temperature_c == pytest.approx(66, abs=1)
    assert settled.held_by == "power"


@pytest.mark.parametrize("name", gpu_names())
def test_no_gpu_exceeds_its_limit_or_its_slowdown_temperature(name):
    gpu = find_gpu(name)
    for activity in (FULL, Activity(0.3, 1.0), Activity(0.0, 0.0)):
        for die in (TYPICAL, Die(dynamic=1.1, leakage=1.3, inlet_c=8.0), Die(resistance=1.5, inlet_c=10.0)):
            settled = settle(gpu, activity, die)
            assert settled.power_w <= gpu.power.limit_w
            if settled.clock_mhz > gpu.clocks_mhz.min:  # the lowest clock can't be lowered further
                assert settled.temperature_c <= gpu.thermal.slowdown_c + 0.1
            assert gpu.clocks_mhz.min <= settled.clock_mhz <= gpu.clocks_mhz.boost


@given(activity=activities, one=limits_w, other=limits_w)
def test_a_higher_limit_is_never_slower(activity, one, other):
    low, high = sorted((one, other))
    slow, fast = (settle(V100, activity, limits=Limits(power_w=watts)) for watts in (low, high))
    assert fast.clock_mhz >= slow.clock_mhz - 1e-6
    assert fast.slowdown <= slow.slowdown + 1e-9
    assert fast.power_w >= slow.power_w - 1e-6


@given(activity=activities, cool=st.floats(-15.0, 25.0), warm=st.floats(-15.0, 25.0))
def test_warmer_air_is_never_faster(activity, cool, warm):
    cool, warm = sorted((cool, warm))
    before, after = (settle(V100, activity, Die(inlet_c=degrees)) for degrees in (cool, warm))
    assert after.clock_mhz <= before.clock_mhz + 1e-6
    assert after.temperature_c >= before.temperature_c - 1e-6


@given(activity=activities, watts=limits_w, clock=clocks_mhz, index=st.integers(0, 500))
def test_power_and_temperature_are_consistent(activity, watts, clock, index):
    """In steady state, all power leaves through the cooling: T = air + R P."""
    die = draw_die(V100, index)
    settled = settle(V100, activity, die, Limits(watts, clock))
    c_per_w = (V100.thermal.fast_c_per_w + V100.thermal.slow_c_per_w) * die.resistance
    assert settled.temperature_c == pytest.approx(V100.thermal.ambient_c + die.inlet_c + c_per_w * settled.power_w)
    if settled.clock_mhz > V100.clocks_mhz.min + 1:
        assert settled.power_w <= watts * REGULATED * die.control + 0.01


def test_the_limiting_factor_of_the_clock_is_named():
    assert settle(V100, Activity(0.1, 0.1)).held_by == "boost"
    assert settle(V100, FULL, limits=Limits(clock_mhz=1200)).held_by == "lock"
    assert settle(V100, FULL, Die(resistance=1.5)).held_by == "heat"


def test_a_locked_clock_turns_time_variation_into_power_variation():
    dies = Dies.of(fleet(V100, 200))
    free, locked = settle_fleet(V100, FULL, dies), settle_fleet(V100, FULL, dies, Limits(clock_mhz=1200))
    spread = [np.std(fleet_.slowdown) / np.mean(fleet_.slowdown) for fleet_ in (free, locked)]
    assert spread[1] < spread[0] / 5
    assert np.std(locked.power_w) > 5 * np.std(free.power_w[free.held_by == "power"])


def test_the_fleet_settles_as_each_of_its_dies_alone():
    dies = fleet(V100, 7, seed=3)
    together = settle_fleet(V100, FULL, Dies.of(dies))
    for index, die in enumerate(dies):
        alone = settle(V100, FULL, die)
        assert alone.clock_mhz == together.clock_mhz[index]
        assert alone.held_by == together.held_by[index]


@pytest.mark.parametrize(
    ("limits", "words"), [(Limits(power_w=90), "power limit of 90 W"), (Limits(clock_mhz=9000), "clock of 9000 MHz")]
)
def test_unsupported_limits_are_refused_with_the_valid_range(limits, words):
    with pytest.raises(DeviceError, match=words) as refused:
        settle(V100, FULL, limits=limits)
    assert "choose" in str(refused.value.hint)


def test_clocks_are_shown_in_steps_as_whole_mhz():
    assert list(shown_clock_mhz(V100, np.array([1530.0, 1366.0, 1358.0]))) == [1530.0, 1365.0, 1357.0]
