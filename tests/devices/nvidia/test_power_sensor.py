"""Quality of a power reading: published, from fast polling, and on real traces."""

import csv
import functools
import os
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from cotenant.analyse import energy
from cotenant.analyse import energy as sensor_arithmetic
from cotenant.devices.nvidia import counters

DATA = Path(os.environ.get("COTENANT_DATA", Path(__file__).parents[4] / "shared" / "data"))
COLUMNS = ("power.draw [W]", "temperature.gpu", "clocks.current.sm [MHz]")
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="no measured data: set COTENANT_DATA to its folder")


@functools.cache
def trace(file, *columns):
    """Times in seconds and columns of a polled trace; non-numbers are NaN."""
    with (DATA / "power" / "sensors" / file).open(newline="", encoding="utf-8-sig") as stream:
        rows = list(csv.DictReader(stream, skipinitialspace=True))

    def number(text):
        try:
            return float(text.split()[0])
        except ValueError:
            return float("nan")

    when = [datetime.strptime(row["timestamp"], "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=UTC) for row in rows]
    t_s = np.array([(at - when[0]).total_seconds() for at in when])
    return t_s, *(np.array([number(row[column]) for row in rows]) for column in columns)


@pytest.mark.parametrize(
    ("architecture", "capability", "driver", "counter", "milliseconds"),
    [
        ("volta", (7, 0), "470.1", "usage", (20, 10)),
        ("pascal", (6, 0), "550.1", "instant", (20, 10)),
        ("turing", (7, 5), "550.1", "usage", (100, 100)),
        ("ampere", (8, 0), "525.1", "usage", (100, 25)),
        ("ampere", (8, 0), "550.1", "instant", (100, 25)),
        ("ampere", (8, 0), "550.1", "average", None),
        ("ampere", (8, 6), "525.1", "usage", (100, 1000)),
        ("ampere", (8, 6), "530.30.02", "usage", (100, 100)),
        ("ada", (8, 9), "550.1", "usage", (100, 1000)),
        ("ada", (8, 9), "550.1", "instant", (100, 100)),
        ("volta", (7, 0), "550.1", "average", None),
        ("hopper", (9, 0), "550.1", "instant", (100, 25)),
        ("hopper", (9, 0), "550.1", "usage", (100, 1000)),
    ],
)
def test_periods_and_windows_as_published(architecture, capability, driver, counter, milliseconds):
    found = counters.published_power(architecture, capability, driver, counter)
    seen = None if found is None else (round(found.update_s * 1e3), round(found.window_s * 1e3))
    assert seen == milliseconds


def test_an_unpublished_architecture_is_labelled_an_assumption():
    found = counters.published_power("rubin", (11, 0), "700.1", "instant")
    assert not found.known
    assert "assumed" in found.quality


@needs_data
@pytest.mark.parametrize(("file", "period_s"), [("v100_update_period.csv", 0.020), ("a100_update_period.csv", 0.100)])
def test_the_update_period_of_real_gpus(file, period_s):
    t_s, watts, *_ = trace(file, *COLUMNS)
    assert sensor_arithmetic.update_period_s(t_s, watts) == pytest.approx(period_s, rel=0.02)


@needs_data
def test_a_real_stuck_sensor_is_flagged_and_healthy_ones_are_not():
    t_s, watts, degrees, mhz = trace("stuck_sensor.csv", *COLUMNS)
    said = energy.stuck((t_s, watts), temperature=(t_s, degrees), clock=(t_s, mhz))
    assert said == "power stood still at 46.19 W for 700 s while the temperature went from 32 to 63 °C"
    for file in ("v100_update_period.csv", "a100_update_period.csv"):
        t_s, watts, degrees, mhz = trace(file, *COLUMNS)
        readings = {"power_w": (t_s, watts), "temperature_c": (t_s, degrees), "sm_clock_mhz": (t_s, mhz)}
        assert energy.faults(readings) == ()


def stairs(period_s, poll_s, seconds=4.0):
    t_s = np.arange(0, seconds, poll_s)
    values = np.random.default_rng(1).normal(100, 1, int(seconds / period_s) + 2)
    return t_s, values[(t_s / period_s + 1e-9).astype(int)]


@pytest.mark.parametrize("period_s", [0.02, 0.1])
def test_fast_polling_shows_the_period(period_s):
    assert sensor_arithmetic.update_period_s(*stairs(period_s, 0.003)) == pytest.approx(period_s, rel=0.05)


def test_slow_polling_shows_nothing():
    assert sensor_arithmetic.update_period_s(*stairs(0.02, 0.05)) is None


def test_a_constant_value_shows_nothing():
    assert sensor_arithmetic.update_period_s(np.arange(100) / 1e2, np.full(100, 42.0)) is None


V100 = counters.published_power("volta", (7, 0), "550.1", "instant")
A100 = counters.published_power("ampere", (8, 0), "550.1", "instant")
RTX = counters.published_power("ada", (8, 9), "550.1", "usage")


def test_energy_from_the_counter_is_exact_but_for_gain_and_edges():
    t_s = np.arange(0, 10, 0.05)
    found = energy.from_counter(t_s, 1e5 + 200 * t_s, 2.0, 7.0, V100)
    assert found.joules == pytest.approx(1000)
    assert 50 <= found.uncertainty_j < 52
    assert found.source == "counter"


def test_energy_from_power_is_less_certain_when_the_sensor_sees_a_quarter_of_a_restless_load():
    t_s = np.arange(0, 10, 0.1)
    restless = 200 + 80 * np.random.default_rng(2).choice([-1.0, 1.0], t_s.size)
    steady = energy.from_power(t_s, np.full(t_s.size, 200.0), 2.0, 7.0, A100)
    found = energy.from_power(t_s, restless, 2.0, 7.0, A100)
    assert steady.joules == pytest.approx(1000)
    assert found.joules == pytest.approx(1000, abs=found.uncertainty_j)
    assert found.uncertainty_j > 1.3 * steady.uncertainty_j


def test_the_uncertainty_covers_what_an_a100_sensor_misses():
    """Loads that switch at any rhythm, read through 25 ms of every 100 ms: the truth is nearly always inside."""
    rng, inside = np.random.default_rng(3), 0
    fine = np.arange(0, 12, 0.001)
    for _ in range(60):
        high = (fine / rng.uniform(0.03, 0.4) + rng.uniform()) % 1 < rng.uniform(0.2, 0.8)
        true_w = np.where(high, rng.uniform(150, 350), 70.0)
        joules = np.concatenate(([0.0], np.cumsum(true_w * 0.001)))
        ends = np.arange(0.1, 11.9, 0.1)
        shown = [(joules[round(end * 1e3)] - joules[round((end - 0.025) * 1e3)]) / 0.025 for end in ends]
        found = energy.from_power(ends, np.array(shown), 3.0, 9.0, A100)
        truth = joules[9000] - joules[3000]
        inside += abs(found.joules - truth) <= 2 * found.uncertainty_j
    assert inside >= 55


@pytest.mark.parametrize(("sensor", "least"), [(V100, 0.02), (A100, 0.1), (RTX, 1.0)])
def test_nothing_is_claimed_for_less_than_a_window(sensor, least):
    t_s = np.arange(0, 10, 0.01)
    assert energy.shortest_s(sensor) == least
    for found in (
        energy.from_power(t_s, np.full(t_s.size, 100.0), 3.0, 3.0 + 0.9 * least, sensor),
        energy.from_counter(t_s, 100 * t_s, 3.0, 3.0 + 0.9 * least, sensor),
    ):
        assert found.joules is None
        assert "shorter than the sensor's resolution" in found.refused
    assert energy.from_power(t_s, np.full(t_s.size, 100.0), 3.0, 3.0 + 1.1 * least, sensor).joules is not None


def test_a_reset_or_a_gap_within_the_stretch_is_refused():
    t_s = np.arange(0, 10, 0.05)
    counter = np.where(t_s < 5, 1e5 + 200 * t_s, 200 * (t_s - 5))
    assert "was reset" in energy.from_counter(t_s, counter, 2.0, 7.0, V100).refused
    assert energy.from_counter(t_s, counter, 6.0, 9.0, V100).joules == pytest.approx(600)
    gap = (t_s < 3) | (t_s > 5)
    assert "no reading for" in energy.from_power(t_s[gap], np.full(gap.sum(), 200.0), 2.0, 7.0, V100).refused


def test_a_counter_read_for_part_of_the_stretch():
    t_s = np.arange(0, 10, 0.05)
    early = t_s < 6.5
    nearly = energy.from_counter(t_s[early], 200 * t_s[early], 2.0, 7.0, V100)
    assert nearly.joules == pytest.approx(1000)
    assert nearly.uncertainty_j > 100, "the last half second is taken to be like the rest"
    early = t_s < 4
    assert "was read for only 2.0 s" in energy.from_counter(t_s[early], t_s[early], 2.0, 7.0, V100).refused
    assert "no reading for 3." in energy.from_power(t_s[early], t_s[early], 2.0, 7.0, V100).refused


T = np.arange(0, 8, 0.1)
STILL = (T, np.full(T.size, 46.19))


def test_a_constant_reading_alone_proves_nothing():
    assert energy.stuck(STILL) is None
    assert energy.stuck(STILL, temperature=(T, 40 + 0.1 * T), clock=(T, np.full(T.size, 135.0))) is None


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        ({"temperature": (T, 32 + 2 * T)}, "while the temperature went from 32 to 48 °C"),
        ({"clock": (T, np.where(T > 3, 1530.0, 135.0))}, "while the clock went from 135 to 1530 MHz"),
        ({"energy": (T, 1e5 + 200 * T)}, "while the energy counter implies 200 W"),
    ],
)
def test_a_constant_reading_while_others_change_is_stuck(evidence, said):
    assert energy.stuck(STILL, **evidence) == f"power stood still at 46.19 W for 8 s {said}"


def test_counters_that_restarted_or_stopped():
    assert energy.resets(np.array([5.0, 6, 1, 2, 0])).tolist() == [2, 4]
    again = (T, np.where(T < 4, 1e5 + T, T))
    assert energy.stopped(again) == "the energy counter was reset 1x: was the driver reloaded?"
    stopped = (T, np.full(T.size, 1e5))
    assert "stood still for 8 s at 200 W" in energy.stopped(stopped, (T, np.full(T.size, 200.0)))
    assert energy.stopped((T, 1e5 + 200 * T), (T, np.full(T.size, 200.0))) is None


def test_a_sensor_that_stopped_reporting():
    gap = (T < 2) | (T > 5)
    assert energy.silent((T[gap], T[gap]), "power_w") == "power_w gave no value for 3.2 s"
    assert energy.silent((T, T), "power_w") is None
    assert energy.faults({"power_w": (T[gap], 100 + T[gap])}) == ("power_w gave no value for 3.2 s",)
