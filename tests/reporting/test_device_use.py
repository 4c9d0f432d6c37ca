"""Device activity of a mix: means over windows, growth of counters, energy only where it is reliable."""

import numpy as np
import pytest

from cotenant.analyse import device_use
from cotenant.analyse.device_use import SensorSeries, TrialReadings
from cotenant.analyse.energy import PowerSensor
from cotenant.analyse.sharing.cells import Cell
from cotenant.reporting.results.activity import cells, shown_columns, sources_sentence

CELL = Cell("run", "cuda:0", False, "{}", "closed(1)", True, "a+b", "mps")
SENSOR = PowerSensor("instant", update_s=0.1, window_s=0.025)


def series(values, source="NVML", begin=-0.5, end=2.5):
    return SensorSeries(np.linspace(begin, end, len(values)), np.asarray(values, float), source)


def trial(window_s=2.0, served=100, **found):
    return TrialReadings(CELL, 0, "cuda:0", window_s, served, found)


def use(*trials, sensor=SENSOR):
    return device_use._over(CELL, "cuda:0", [device_use._in_trial(one, sensor) for one in trials])


def test_a_gauge_is_its_mean_over_the_window_only():
    t = np.array([-1.0, 0.5, 1.5, 3.0])
    found = use(trial(power_w=SensorSeries(t, np.array([900.0, 100.0, 200.0, 900.0]), "NVML power, instant")))
    assert found.power_w.value == 150
    assert found.power_w.source == "NVML power, instant"


def test_trials_are_averaged_and_counted():
    found = use(trial(power_w=series([100] * 9)), trial(power_w=series([300] * 9)))
    assert (found.power_w.value, found.power_w.trials) == (200, 2)


def test_energy_per_request_is_the_counters_growth_with_its_error():
    found = use(trial(served=50, energy_j=series(1000 + 200 * np.linspace(-0.5, 2.5, 61), "NVML energy counter")))
    assert found.energy_per_request_j.value == pytest.approx(200 * 2.0 / 50)
    assert found.energy_per_request_j.uncertainty > 0.05 * found.energy_per_request_j.value


def test_without_a_counter_power_is_integrated_and_labelled():
    found = use(trial(served=50, power_w=series([200] * 61, "NVML power usage")))
    assert found.energy_per_request_j.value == pytest.approx(200 * 2.0 / 50)
    assert found.energy_per_request_j.source == "NVML power usage, summed up"


def test_energy_of_less_than_a_window_is_refused_with_the_reason():
    found = use(trial(window_s=0.05, energy_j=series(np.arange(61.0))))
    assert found.energy_per_request_j is None
    assert "shorter than the sensor's resolution" in found.no_energy
    assert "no J/request: a time span of 50 ms" in sources_sentence([found])


def test_throttling_is_counted_where_there_are_counters():
    grows = series(np.linspace(-0.25, 1.25, 61), "NVML throttle counters")
    found = use(trial(throttled_power_cap_s=grows, throttled_thermal_s=series([0] * 61), power_w=series([1] * 9)))
    assert found.throttled_share.value == pytest.approx(0.5)


def test_throttling_is_sampled_without_counters_and_labelled():
    reasons = SensorSeries(np.array([0.1, 0.6, 1.1, 1.6]), np.array([0x4, 0x1, 0x0, 0x40], float), "NVML event reasons")
    found = use(trial(event_reasons=reasons))
    assert found.throttled_share.value == 0.5
    assert found.throttled_share.source == "NVML event reasons, sampled"


def test_columns_without_a_value_are_not_shown_and_holes_are_dashes():
    both = [use(trial(served=0, power_w=series([100] * 9))), use(trial(sm_clock_mhz=series([1410] * 9)))]
    columns = shown_columns(both)
    assert [label for label, _, _ in columns] == ["power W", "SM clock MHz"]
    assert cells(both[0], columns) == ["100", "\u2013"]


def test_a_counter_that_started_again_gives_no_energy():
    found = use(trial(energy_j=series([*range(30), *range(31)])))
    assert found.energy_per_request_j is None
    assert "was reset" in found.no_energy
