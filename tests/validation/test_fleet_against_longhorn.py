"""On the measured data itself: the fleet, the sensors and the power limits reach the stated accuracy."""

import os
from pathlib import Path

import pytest

from validation import longhorn, sensor_traces, zeus

DATA = Path(os.environ.get("COTENANT_DATA", Path(__file__).parents[3] / "shared" / "data"))
pytestmark = [
    pytest.mark.skipif(not DATA.is_dir(), reason="no measured data: set COTENANT_DATA to its folder"),
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def measures():
    [result] = longhorn.validate(DATA)
    assert (result.n, result.n_held_out) == (392, 188)
    return {measure.name: measure for measure in result.measures}


def test_the_fleet_reaches_its_targets(measures):
    judged = [measure for measure in measures.values() if measure.target is not None]
    assert len(judged) == 4
    assert [measure.name for measure in judged if not measure.reached] == []


def test_simulated_figures_lie_near_the_held_out_gpus(measures):
    assert measures["median clock"].value == pytest.approx(measures["median clock"].measured, rel=0.01)
    assert measures["clock lost per degree"].value == pytest.approx(-2.0, abs=0.3)
    assert measures["coolest GPU"].value == pytest.approx(48, abs=3)
    assert measures["warmest GPU"].value == pytest.approx(82, abs=3)
    assert measures["repeatability: median CV of one GPU's runs"].value == pytest.approx(0.125, abs=0.02)


def test_a_fleet_is_better_than_identical_gpus(measures):
    by_rank = measures["mean abs. error of time by rank"]
    assert by_rank.value < by_rank.baselines["all alike"] / 3


def test_the_first_fleet_varies_like_the_real_one():
    assert longhorn.whiskers(longhorn.simulated(0).time) == pytest.approx(8.7, abs=1.0)


def test_sensors_change_and_average_as_real_ones():
    periods, average = sensor_traces.validate(DATA)
    assert periods.measures[0].value < 5
    assert average.measures[0].value < average.measures[0].baselines["no window"] / 5


def test_time_under_a_power_limit_beats_every_baseline():
    times, _ = zeus.validate(DATA)
    error = times.measures[0]
    assert error.value < min(error.baselines.values())
