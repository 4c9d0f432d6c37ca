"""Sensor comparison, stuck sensors; curves of clock, power, time and heat; energy and its attribution."""

import numpy as np
import pytest

from cotenant.analyse.variability.attribution import attribute
from cotenant.analyse.variability.frequency import best_clock, fit_power, fit_time
from cotenant.analyse.variability.sensor_quality import compare_sensors, fit_heat, stuck


def load(seconds=60.0, step=0.002, seed=0):
    """Power that switches between levels at random times."""
    random = np.random.default_rng(seed)
    at = np.arange(0, seconds, step)
    switched = np.cumsum(random.uniform(0.05, 0.6, int(seconds * 4)))
    return at, random.uniform(80, 300, switched.size + 1)[np.searchsorted(switched, at)]


@pytest.mark.parametrize(("window", "lag"), [(0.1, 0.0), (1.0, 0.05), (0.025, 0.2)])
def test_gain_offset_lag_and_window_of_a_vendor_tool_are_found(window, lag):
    at, power = load()
    shown_at = np.arange(0, 60, 0.05)
    energy = np.concatenate(([0], np.cumsum(power[:-1] * 0.002)))
    mean = (np.interp(shown_at - lag, at, energy) - np.interp(shown_at - lag - window, at, energy)) / window
    found = compare_sensors(at, power, shown_at, 4 + 0.95 * mean)
    assert found.gain == pytest.approx(0.95, abs=0.01)
    assert found.offset == pytest.approx(4, abs=2)
    assert found.lag_s == pytest.approx(lag, abs=0.01)
    assert found.window_s == window
    assert found.held_out_rmse < found.uncorrected_rmse / 5


def test_sensors_that_do_not_overlap_are_refused():
    with pytest.raises(ValueError, match="20 readings in common"):
        compare_sensors(np.arange(10.0), np.arange(10.0), np.arange(100.0, 110.0), np.arange(10.0))


def test_a_constant_power_sensor_during_warming_is_stuck():
    at = np.arange(0, 100, 0.5)
    found = stuck("power_w", at, np.full(200, 46.19), {"temperature_c": np.linspace(32, 63, 200)})
    assert (found.value, found.readings, found.witness) == (46.19, 200, "temperature_c")
    assert (found.witness_from, found.witness_to) == (32, 63)


@pytest.mark.parametrize(
    ("values", "witness"),
    [
        (np.full(200, 46.19), np.full(200, 32.0)),  # nothing happens at all
        (np.random.default_rng(0).normal(46, 1, 200), np.linspace(32, 63, 200)),  # it moves
    ],
)
def test_a_sensor_that_changes_or_need_not_is_not_stuck(values, witness):
    assert stuck("power_w", np.arange(0, 100, 0.5), values, {"temperature_c": witness}) is None


def test_a_pause_between_trials_is_not_a_long_stretch():
    at = np.concatenate([np.arange(0, 2, 0.1), np.arange(60, 62, 0.1)])
    assert stuck("power_w", at, np.full(40, 297.0), {"temperature_c": np.linspace(30, 60, 40)}) is None


CLOCKS = np.array([500.0, 600, 750, 900, 1050, 1200, 1350, 1500])


def test_the_knee_of_power_is_found():
    power = 30 + 0.05 * CLOCKS + 2e-4 * np.maximum(0, CLOCKS - 950) ** 2
    found = fit_power(CLOCKS, power)
    assert found.knee_mhz == pytest.approx(950, abs=25)
    assert found.held_out < 0.02
    assert found.at(CLOCKS) == pytest.approx(power, rel=0.01)


def test_few_clocks_give_no_knee():
    with pytest.raises(ValueError, match="5 different clocks"):
        fit_power(CLOCKS[:4], CLOCKS[:4])


def test_time_is_split_into_clock_bound_and_fixed_parts():
    found = fit_time(CLOCKS, 3 + 7 * 1500 / CLOCKS)
    assert (found.memory_ms, found.core_ms) == (pytest.approx(3, abs=0.01), pytest.approx(7, abs=0.01))
    assert found.core_share == pytest.approx(0.7)
    assert found.held_out < 1e-6


def test_the_clock_of_least_energy_lies_at_the_knee_for_clock_bound_work():
    power = 40 + 0.05 * CLOCKS + 4e-4 * np.maximum(0, CLOCKS - 900) ** 2
    found = best_clock(CLOCKS, power, 10 * 1500 / CLOCKS)
    assert found.clock_mhz in (900, 1050)
    assert found.energy_saved > 0.2
    assert found.time_lost > 0.3


def test_two_poles_of_heat_are_found_and_beat_one():
    at = np.arange(0, 300, 0.25)
    power = np.where((at // 40) % 2 == 0, 60.0, 280.0)
    fast = slow = 60.0
    heat = []
    for watts in power:
        heat.append(25 + 0.03 * fast + 0.045 * slow)
        fast += (watts - fast) * (1 - np.exp(-0.25 / 0.4))
        slow += (watts - slow) * (1 - np.exp(-0.25 / 18))
    found = fit_heat(at, power, np.array(heat))
    assert found.held_out_rmse_c < 0.3
    assert found.held_out_rmse_c < found.one_pole_rmse_c / 3
    assert found.fast_c_per_w + found.slow_c_per_w == pytest.approx(0.075, rel=0.1)
    assert found.slow_s == pytest.approx(18, rel=0.5)


def test_heat_that_does_not_move_is_refused():
    with pytest.raises(ValueError, match="30 readings"):
        fit_heat(np.arange(50.0), np.full(50, 100.0), np.full(50, 50.0))


def test_rules_of_attribution_add_up_and_differ_as_they_say():
    activity = {"a": 3.0, "b": 1.0}
    by_activity = attribute("activity share", 200, activity, idle_w=40)
    split = attribute("idle split", 200, activity, idle_w=40)
    assert by_activity == {"a": 150, "b": 50}
    assert split == {"a": 20 + 120, "b": 20 + 40}
    coalitions = {frozenset({"a"}): 160.0, frozenset({"b"}): 100.0}
    shapley = attribute("shapley", 200, activity, idle_w=40, coalitions=coalitions)
    assert shapley == {"a": pytest.approx(20 + (120 + 100) / 2), "b": pytest.approx(20 + (60 + 40) / 2)}
    for found in (by_activity, split, shapley):
        assert sum(found.values()) == pytest.approx(200)


def test_shapley_names_the_set_that_was_not_measured():
    with pytest.raises(ValueError, match=r"missing: \{'a'\}"):
        attribute("shapley", 200, {"a": 1, "b": 1})
