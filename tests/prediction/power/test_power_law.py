"""Power over the clock: flat voltage below the knee, rising above it, never falling with the clock."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.devices.simulated.catalogue import find_gpu, gpu_names
from cotenant.prediction.power.draw import FULL, Activity, leakage_w, power_curve, voltage_squared

V100 = find_gpu("v100-sxm2-16gb")
shares = st.floats(0.0, 1.0)


def test_voltage_is_flat_below_the_knee_and_rises_above_it():
    below = voltage_squared(V100, np.array([300.0, 600.0, V100.power.knee_mhz]))
    above = voltage_squared(V100, np.array([1000.0, 1200.0, 1400.0, V100.clocks_mhz.boost]))
    assert np.all(below == 1.0)
    assert np.all(np.diff(above) > 0)
    assert above[0] > 1.0


def test_power_of_a_matrix_product_on_a_v100_matches_measurements():
    """99 W at 945 MHz and 186 W at 1380 are given; 154 W at 1237 MHz lies within the law's few per cent."""
    low, middle, high = (clock * voltage_squared(V100, np.array(clock)) for clock in (945.0, 1237.0, 1380.0))
    assert 99 + (186 - 99) * (middle - low) / (high - low) == pytest.approx(154, rel=0.06)


@pytest.mark.parametrize("name", gpu_names())
def test_power_rises_with_the_clock_on_every_gpu(name):
    gpu = find_gpu(name)
    for activity in (FULL, Activity(0.0, 0.0), Activity(0.2, 0.9), Activity(0.5, 0.5)):
        curve = power_curve(gpu, activity)
        assert np.all(np.diff(curve.clocks_mhz) > 0)
        assert np.all(np.diff(curve.dynamic_w) > 0)
        assert curve.clocks_mhz[0] == pytest.approx(gpu.clocks_mhz.min, abs=gpu.clocks_mhz.step)
        assert curve.clocks_mhz[-1] == gpu.clocks_mhz.boost


@given(less=shares, more=shares, memory=shares)
def test_more_work_draws_more(less, more, memory):
    less, more = sorted((less, more))
    at_boost = [power_curve(V100, Activity(share, memory)).dynamic_w[-1] for share in (less, more)]
    assert at_boost[0] <= at_boost[1] + 1e-9


def test_leakage_grows_by_e_in_39_degrees_with_the_stated_slope_at_65():
    warm = leakage_w(V100, np.array([64.5, 65.5]))
    assert warm[1] - warm[0] == pytest.approx(V100.thermal.leakage_w_per_c, rel=1e-3)
    assert leakage_w(V100, np.array(104.0)) / leakage_w(V100, np.array(65.0)) == pytest.approx(np.e)


def test_time_bound_to_the_clock_stretches_and_the_rest_does_not():
    compute, memory = power_curve(V100, Activity(1.0, 0.0)), power_curve(V100, Activity(0.0, 1.0))
    half = np.array([V100.clocks_mhz.boost / 2])
    assert compute.slowdown_at(half)[0] == pytest.approx(2.0)
    assert memory.slowdown_at(half)[0] == pytest.approx(1.0)
