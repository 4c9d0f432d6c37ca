"""Energy and sensors: what is computed from readings, and when readings aren't believed; by hand."""

import math

import numpy as np
import pytest

from cotenant.analyse import energy
from cotenant.analyse.energy import PowerSensor
from cotenant.analyse.variability import sensor_quality

FAST = PowerSensor("instant", update_s=0.1, window_s=0.1)
BLIND = PowerSensor("average", update_s=0.1, window_s=0.025)


def readings(values, step=1.0, begin=0.0):
    return begin + step * np.arange(len(values)), np.array(values, float)


# --- power sensors


def test_a_sensor_sees_its_window_of_each_update():
    assert (FAST.duty, BLIND.duty, PowerSensor("usage", 0.1, 1.0).duty) == (1.0, 0.25, 1.0)
    assert PowerSensor("usage", 0.1, 1.0, measured_update_s=0.2).period_s == 0.2
    assert FAST.period_s == 0.1
    assert FAST.quality == "new value every 100 ms (published), mean of the last 100 ms; within 5 % of a meter"
    assert "(assumed)" in PowerSensor("usage", 0.1, 0.1, known=False).quality
    seen = PowerSensor("usage", 0.1, 0.025, measured_update_s=0.0204).quality
    assert seen.startswith(
        "new value every 20 ms (measured here; 100 ms published), mean of the last 25 ms, so it sees 25 %"
    )


def polled(changes, until, step=0.01):
    t = np.round(np.arange(0, until, step), 6)
    return t, np.searchsorted(changes, t + 1e-9).astype(float)


def test_the_update_period_is_the_mean_time_between_changes():
    t, values = polled(np.arange(1, 9) * 0.1, 1.0)
    assert energy.update_period_s(t, values) == pytest.approx(0.1)
    t, values = polled([0.1, 0.2, 0.3, 0.4, 0.5, 0.9, 1.0], 1.2)  # three missed
    assert energy.update_period_s(t, values) == pytest.approx(0.1)
    t, values = polled([0.1, 0.2, 0.3, 0.4, 0.5], 0.7)
    assert energy.update_period_s(t, values) == pytest.approx(0.1)
    values[3] = math.nan
    assert energy.update_period_s(t, values) == pytest.approx(0.1)
    assert energy.update_period_s(*polled([0.1, 0.2, 0.3, 0.4], 0.7)) is None
    assert energy.update_period_s(*polled(np.arange(1, 40) * 0.01, 0.5)) is None
    assert energy.update_period_s(*polled(np.arange(1, 20) * 0.02, 0.5)) == pytest.approx(0.02)


# --- energy


def test_a_counter_gives_its_growth_with_gain_and_edges():
    t, joules = readings(100.0 * np.arange(11))
    found = energy.from_counter(t, joules, 2.0, 8.0, FAST)
    assert found.joules == pytest.approx(600)
    assert found.uncertainty_j == pytest.approx(math.hypot(0.05 * 600, 100 * 0.1 * math.sqrt(2)))
    assert (found.source, found.n, found.refused) == ("counter", 7, None)
    late = energy.from_counter(t, joules, -0.5, 10.5, FAST)
    assert late.joules == pytest.approx(1100)
    assert late.uncertainty_j == pytest.approx(math.hypot(55, 100 * (0.1 * math.sqrt(2) + 1.0)))


@pytest.mark.parametrize(
    ("joules", "begin", "end", "why"),
    [
        (range(11), 0.0, 0.05, "a time span of 50 ms is shorter than the sensor's resolution, 100 ms"),
        ([0.0], 0.0, 1.0, "read less than twice"),
        ([0, 1, 2, 1, 2], 0.0, 4.0, "was reset in the time span"),
        (range(5), 0.0, 5.1, "read for only 4.0 s"),
    ],
)
def test_a_counter_is_refused(joules, begin, end, why):
    found = energy.from_counter(*readings([*joules]), begin, end, FAST)
    assert found.joules is None
    assert why in found.refused
    assert found.source == "counter"


def test_a_counter_that_covers_four_fifths_will_do():
    assert energy.from_counter(*readings(range(5)), 0.0, 5.0, FAST).joules == pytest.approx(5.0)
    assert energy.from_counter(*readings(range(3), 0.1), 0.0, 0.1, FAST).joules == pytest.approx(1.0)


def test_power_is_integrated_between_readings():
    t, watts = readings([100.0, 200.0, 200.0, 100.0, 100.0], 0.5)
    found = energy.from_power(t, watts, 0.0, 2.0, BLIND)
    assert found.joules == pytest.approx(0.5 * (150 + 200 + 150 + 100))
    unseen = 2.0 * np.std(watts) * math.sqrt(0.75 / 20)
    edges = 300 / 2 * 0.1 * math.sqrt(2)
    assert found.uncertainty_j == pytest.approx(math.sqrt((0.05 * 300) ** 2 + unseen**2 + edges**2))
    assert (found.source, found.n) == ("power", 5)
    t, watts = readings([100.0, 200.0, 300.0], 0.5)
    part = energy.from_power(t, watts, 0.1, 0.9, FAST)
    assert part.joules == pytest.approx(0.4 * (120 + 200) / 2 + 0.4 * (200 + 280) / 2)
    lag, edges = 160 * 0.1 / 2, 200 * 0.1 * math.sqrt(2)
    assert part.uncertainty_j == pytest.approx(math.sqrt((0.05 * 160) ** 2 + lag**2 + edges**2))


@pytest.mark.parametrize(
    ("times", "end", "why"),
    [
        ([0.0, 1.0], 0.01, "shorter than"),
        ([0.0], 1.0, "less than twice"),
        ([0.0, 0.5, 1.6], 1.6, "no reading for 1.1 s"),
        ([0.0, 0.5], 1.6, "for 1.1 s"),
        ([1.1, 1.6], 1.6, "for 1.1 s"),
    ],
)
def test_power_is_refused(times, end, why):
    found = energy.from_power(np.array(times), np.ones(len(times)), 0.0, end, FAST)
    assert found.joules is None
    assert why in found.refused
    assert found.source == "power"


def test_slow_sensors_may_be_silent_for_ten_updates():
    slow = PowerSensor("usage", 0.5, 0.5)
    assert energy.from_power(np.array([0.0, 5.0, 6.0]), np.ones(3), 0.0, 6.0, slow).joules == pytest.approx(6.0)
    assert energy.from_power(np.array([0.0, 5.1, 6.0]), np.ones(3), 0.0, 6.0, slow).joules is None
    assert energy.from_power(np.array([0.0, 1.0]), np.ones(2), 0.0, 1.0, FAST).joules == pytest.approx(1.0)
    assert energy.shortest_s(slow) == 0.5
    assert energy.shortest_s(PowerSensor("usage", 0.1, 1.0)) == 1.0


def test_readings_just_outside_the_span_count():
    t, values = np.array([0.0, 0.79, 0.81, 1.0, 2.0, 2.19, 2.21]), np.array([1, 2, 3, math.nan, 4, 5, 6.0])
    near, _ = energy._within(t, values, 1.0, 2.0, FAST)
    assert near.tolist() == [0.81, 2.0, 2.19]
    near, _ = energy._within(t, values, 1.0, 2.0, PowerSensor("usage", 0.5, 0.5))
    assert near.tolist() == [0.0, 0.79, 0.81, 2.0, 2.19, 2.21]


# --- faults of sensors in a trial

STILL = readings([80.0] * 5, 0.5)


def test_a_reset_is_where_a_counter_falls():
    assert energy.resets(np.array([1, 2, 2, 1, 5, 0.0])).tolist() == [3, 5]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, None),
        ({"temperature": readings([50, 53.0])}, "while the temperature went from 50 to 53 °C"),
        ({"temperature": readings([50, 52.9])}, None),
        ({"clock": readings([1000, 949.0])}, "while the clock went from 949 to 1000 MHz"),
        ({"clock": readings([1000, 950.0])}, None),
        ({"energy": readings([0, 250.0], 2.0)}, "while the energy counter implies 125 W"),
        ({"energy": readings([0, 110.0], 2.0)}, "implies 55 W"),
        ({"energy": readings([0, 220.0], 2.0)}, None),
        ({"energy": readings([0, 250.0], 1.9)}, None),
        ({"energy": readings([250, 0.0], 2.0)}, None),
        ({"temperature": readings([math.nan] * 2), "clock": readings([math.nan] * 2)}, None),
    ],
)
def test_power_that_stands_still_is_stuck_if_something_else_moved(more, why):
    found = energy.stuck(STILL, **more)
    assert found == (None if why is None else found)
    if why is not None:
        assert found.startswith("power stood still at 80.00 W for 2 s")
        assert why in found


@pytest.mark.parametrize(
    "power", [readings([80.0] * 4, 0.5), readings([80.0] * 2, 5.0), readings([80, 80, 80, 80, 81.0], 0.5)]
)
def test_power_that_moved_or_was_seen_too_briefly_is_not_stuck(power):
    assert energy.stuck(power, temperature=readings([50, 90.0])) is None


def test_a_counter_that_stands_still_under_power_has_stopped():
    still = readings([7.0] * 5, 0.5)
    assert energy.stopped(still, readings([50.0, 70.0])) == "the energy counter stood still for 2 s at 60 W"
    assert energy.stopped(still, readings([1.0])) is None
    assert energy.stopped(still, readings([1.1])) is not None
    assert energy.stopped(still) is None
    assert energy.stopped(readings([7.0] * 4, 0.5), readings([50.0])) is None
    assert energy.stopped(readings([7.0] * 2, 5.0), readings([50.0])) is None
    assert energy.stopped(readings([7, 7, 7, 7, 8.0], 0.5), readings([50.0])) is None
    assert energy.stopped(readings([5, 1, 5, 1.0])) == "the energy counter was reset 2x: was the driver reloaded?"


def test_silence_is_the_longest_gap():
    assert energy.silent((np.array([0, 1, 3.1]), np.ones(3)), "power_w") == "power_w gave no value for 2.1 s"
    assert energy.silent((np.array([0, 2.0]), np.ones(2)), "power_w") is None
    assert energy.silent((np.array([9.0]), np.ones(1)), "power_w") is None
    assert energy.silent((np.array([0, 1, 2.5]), np.array([1, math.nan, 1])), "x") == "x gave no value for 2.5 s"


def test_all_faults_of_a_device_are_told():
    told = energy.faults(
        {"power_w": STILL, "temperature_c": readings([50, 60.0]), "energy_j": readings([7.0] * 5, 0.5)}
    )
    assert [sentence.split(" stood")[0] for sentence in told] == ["power", "the energy counter"]
    assert energy.faults({"power_w": STILL, "sm_clock_mhz": readings([500, 900.0])}) != ()
    assert energy.faults({}) == ()


# --- two sensors of the same quantity


def sampled(gain=1.0, offset=0.0, lag=0.0, window=0.0, seconds=60.0):
    fine = np.arange(0, seconds, 0.01)
    truth = 100 + 40 * np.sign(np.sin(2 * np.pi * fine / 3.7)) + 10 * np.sin(fine)
    integral = np.concatenate(([0], np.cumsum(0.01 * (truth[1:] + truth[:-1]) / 2)))
    at = np.arange(0.05, seconds, 0.1)
    if window:
        shown = (np.interp(at - lag, fine, integral) - np.interp(at - lag - window, fine, integral)) / window
    else:
        shown = np.interp(at - lag, fine, truth)
    return fine, truth, at, offset + gain * shown


@pytest.mark.parametrize(
    ("gain", "offset", "lag", "window"), [(1.0, 0.0, 0.0, 0.0), (0.9, 5.0, 0.3, 0.1), (1.2, -3.0, 1.1, 0.5)]
)
def test_a_sensor_is_explained_by_gain_offset_lag_and_window(gain, offset, lag, window):
    fine, truth, at, shown = sampled(gain, offset, lag, window)
    found = sensor_quality.compare_sensors(fine, truth, at, shown)
    assert found.window_s == window
    assert (found.gain, found.offset) == (pytest.approx(gain, abs=0.02), pytest.approx(offset, abs=2))
    assert found.lag_s == pytest.approx(lag, abs=0.01)
    assert found.held_out_rmse < 1.5
    assert found.uncorrected_rmse == pytest.approx(
        math.sqrt(np.mean((np.interp(at, fine, truth) - shown)[30:-20] ** 2)), rel=0.05, abs=1e-9
    )
    assert found.n == np.count_nonzero((at >= 3.0) & (at <= fine[-1] - 2.0))


def test_two_sensors_need_twenty_readings_in_common_and_movement():
    fine, truth, at, shown = sampled()
    for chosen, fits in ((at[40:60], True), (at[40:59], False)):
        values = np.interp(chosen, at, shown)
        if fits:
            assert sensor_quality.compare_sensors(fine, truth, chosen, values).n == 20
        else:
            with pytest.raises(ValueError, match="20 readings"):
                sensor_quality.compare_sensors(fine, truth, chosen, values)
    with pytest.raises(ValueError, match="something that moves"):
        sensor_quality.compare_sensors(fine, np.full_like(truth, 5.0), at, shown)


def test_the_longest_stretch_is_without_a_pause():
    at = np.array([0, 1, 2, 30, 31, 32, 33, 60.0])
    assert sensor_quality.longest_stretch(at, at)[0].tolist() == [30, 31, 32, 33]
    even = np.array([0, 1, 2, 22, 23.0])
    assert sensor_quality.longest_stretch(even, even)[1].tolist() == even.tolist()
    assert sensor_quality.longest_stretch(even[:1], even[:1])[0].tolist() == [0]
    assert sensor_quality.longest_stretch(np.array([0, 1, 2, 22.5]), even[:4])[0].tolist() == [0, 1, 2]


def stretch(count, step=0.5, value=80.0):
    return np.arange(count) * step, np.full(count, value)


@pytest.mark.parametrize(
    ("count", "step", "moved", "found"),
    [(20, 0.5, 5.0, True), (19, 0.5, 5.0, False), (20, 0.25, 5.0, False), (21, 0.25, 5.0, True), (20, 0.5, 4.9, False)],
)
def test_a_sensor_is_stuck_for_twenty_readings_and_five_seconds_while_another_moves(count, step, moved, found):
    at, values = stretch(count, step)
    warm = np.linspace(60, 60 + moved, count)
    result = sensor_quality.stuck("power_w", at, values, {"temperature_c": warm})
    assert (result is not None) is found
    if found:
        assert (result.sensor, result.value, result.from_s, result.to_s, result.readings) == (
            "power_w",
            80.0,
            0.0,
            at[-1],
            count,
        )
        assert (result.witness, result.witness_from, result.witness_to) == ("temperature_c", 60.0, 65.0)


def test_other_witnesses_pauses_and_changes():
    at, values = stretch(40)
    assert sensor_quality.stuck("p", at, values, {"sm_clock_mhz": np.linspace(0, 900, 40)}) is None
    assert sensor_quality.stuck("p", at, values, {"any_kernel_share": np.linspace(0.75, 0.25, 40)}).witness_to == 0.25
    assert sensor_quality.stuck("p", at, values * math.nan, {"any_kernel_share": np.linspace(0, 1, 40)}) is None
    missing = np.full(40, math.nan)
    assert sensor_quality.stuck("p", at, values, {"temperature_c": missing}) is None
    paused = at + 100 * (np.arange(40) >= 15)
    assert sensor_quality.stuck("p", paused, values, {"temperature_c": np.linspace(0, 90, 40)}).readings == 25
    changed = values + (np.arange(40) == 12)
    found = sensor_quality.stuck("p", at, changed, {"temperature_c": np.linspace(0, 90, 40)})
    assert (found.from_s, found.to_s, found.readings) == (6.5, 19.5, 27)


def test_a_longer_stretch_that_is_too_brief_does_not_hide_one_that_is_not():
    at = np.concatenate([np.arange(60) * 0.05, 10 + np.arange(30) * 0.5])
    values = np.concatenate([np.full(60, 80.0), np.full(30, 90.0)])
    found = sensor_quality.stuck("p", at, values, {"temperature_c": np.linspace(0, 90, 90)})
    assert (found.value, found.readings) == (90.0, 30)


def warmed(noise=0.0, sign=1.0):
    at = np.arange(0, 600, 1.0)
    power = 100 + 100 * (np.sin(at / 37) > 0) + 30 * (np.sin(at / 11) > 0.3)
    heat = np.full(at.size, 25.0)
    for tau, resistance in ((1.2, 0.05), (40.0, 0.15)):
        level, keep = power[0], math.exp(-1 / tau)
        for i in range(at.size):
            heat[i] += sign * resistance * level
            level = keep * level + (1 - keep) * power[i]
    return at, power, heat + noise * np.random.default_rng(0).normal(size=at.size)


def test_heat_follows_power_by_two_poles():
    found = sensor_quality.fit_heat(*warmed(0.1))
    assert found.air_c == pytest.approx(25, abs=1.5)
    assert found.fast_c_per_w + found.slow_c_per_w == pytest.approx(0.2, abs=0.01)
    assert found.slow_c_per_w == pytest.approx(0.15, abs=0.02)
    assert (found.fast_s, found.slow_s) == (pytest.approx(1.2, rel=0.5), pytest.approx(40, rel=0.3))
    assert found.held_out_rmse_c < 0.5 < found.one_pole_rmse_c
    assert found.span_s == 599


def test_heat_that_has_nothing_to_do_with_power_is_refused():
    at, power, heat = warmed()
    for case in (
        (at[:29], power[:29], heat[:29]),
        (at, np.full_like(power, 9), heat),
        (at, power, 25 + 0.9 * (heat - heat.min()) / np.ptp(heat)),
    ):
        with pytest.raises(ValueError, match="30 readings"):
            sensor_quality.fit_heat(*case)
    with pytest.raises(ValueError, match="temperature"):
        sensor_quality.fit_heat(*warmed(sign=-1.0))


def test_a_pole_is_exact_for_power_that_is_constant_over_each_step():
    found = sensor_quality._pole(np.array([0.0, 10.0, 10.0]), 1.0, 2.0)
    keep = math.exp(-0.5)
    assert found == pytest.approx([0.0, 0.0, 10 * (1 - keep)])
    assert sensor_quality._pole(np.array([5.0, 5.0]), 1.0, 2.0) == pytest.approx([5, 5])
    gain, offset, rest = sensor_quality._line(np.array([0, 1, 2.0]), np.array([1, 3, 5.0]))
    assert (gain, offset, rest) == pytest.approx((2, 1, 0))
    assert sensor_quality._line(np.array([2, 2.0]), np.array([1, 3.0])) == pytest.approx((0, 2, 1))
