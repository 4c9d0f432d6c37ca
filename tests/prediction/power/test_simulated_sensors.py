"""Sensors show the mean of their window at the last update, and nothing in between."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.devices.simulated.controls import infos
from cotenant.prediction.power.draw import FULL, Activity
from cotenant.prediction.power.timeline import Phase, last_update, read_sensors, shown_power_w, simulate_timeline

V100, A100 = find_gpu("v100-sxm2-16gb"), find_gpu("a100-sxm4-40gb")


def _square_wave(period_s, seconds, low=100.0, high=300.0):
    t = np.arange(0.0, seconds + 1e-9, period_s / 2)
    power = np.where(np.arange(len(t) - 1) % 2 == 0, low, high)
    return t, np.concatenate(([0.0], np.cumsum(power * np.diff(t))))


def test_constant_power_is_shown_exactly():
    t, energy = np.array([0.0, 10.0]), np.array([0.0, 2500.0])
    assert np.all(shown_power_w(t, energy, np.linspace(0, 9, 50), 0.025, 0.1) == 250.0)


def test_a_reading_holds_until_the_next_update():
    run = simulate_timeline(V100, [Phase(1.0, FULL), Phase(1.0, Activity(0, 0))])
    seen = read_sensors(V100, run, np.arange(0.0, 2.0, 0.001))
    changed_ms = np.round(seen.t_s[np.flatnonzero(np.diff(seen.power_w)) + 1] * 1e3)
    assert len(changed_ms) > 10
    assert np.all(changed_ms % 20 == 0)


def test_an_a100s_sensor_is_blind_for_three_quarters_of_the_time():
    """Load in step with the sensor's period appears as always on, or never."""
    t, energy = _square_wave(0.1, 5.0)
    at = np.arange(1.0, 4.9, 0.1) + 0.001
    full = shown_power_w(t, energy, at, 0.025, 0.1)
    none = shown_power_w(t, energy, at + 0.05, 0.025, 0.1, phase_s=0.05)
    assert np.allclose(full, 300.0)
    assert np.allclose(none, 100.0)


def test_a_one_second_window_rises_as_a_ramp():
    t, energy = np.array([0.0, 2.0, 4.0]), np.array([0.0, 200.0, 800.0])  # 100 W, then 300 W
    assert shown_power_w(t, energy, np.array([2.0, 2.25, 2.5, 3.0]), 1.0, 0.01) == pytest.approx([100, 150, 200, 300])


@given(at=st.floats(0.0, 100.0), update=st.sampled_from([0.015, 0.02, 0.1]), phase=st.floats(0.0, 0.1))
def test_the_last_update_lies_within_one_period_before_the_reading(at, update, phase):
    last = float(last_update(np.array(at), update, phase))
    assert at - update - 1e-6 <= last <= at + 1e-6


def test_readings_add_up_to_the_energy_if_the_window_fills_the_period():
    run = simulate_timeline(V100, [Phase(2.0, FULL), Phase(2.0, Activity(0.1, 0.5))])
    at = np.arange(0.1, 4.05, 0.1)
    shown = shown_power_w(run.t_s, run.energy_j, at, 0.1, 0.1)
    assert np.sum(shown) * 0.1 == pytest.approx(run.energy_j[-1], rel=1e-5)


def test_counter_temperature_and_clock_are_shown_in_their_own_steps():
    run = simulate_timeline(V100, [Phase(3.0, FULL)])
    seen = read_sensors(V100, run, np.arange(0.0, 3.0, 0.05))
    assert np.all(seen.temperature_c == np.round(seen.temperature_c))
    assert np.all(seen.clock_mhz == np.round(seen.clock_mhz))
    assert np.all(np.diff(seen.energy_j) >= 0)


def test_every_sensor_states_its_accuracy_and_that_it_is_simulated():
    power, *rest = infos(A100)
    assert (power.name, power.period_s) == ("power_w", 0.1)
    assert "25%" in power.quality
    assert all("simulated" in info.quality for info in (power, *rest))
