"""The figure of a sweep over clocks or power limits: energy against time, relative to the default."""

from types import SimpleNamespace

import pytest

from cotenant.analyse.dvfs import ClockStep, Sweep
from cotenant.reporting.figures.figure import Absent
from cotenant.reporting.figures.load_curves import sweep_figure


def step(value, time_ms, energy_j):
    return ClockStep(value, 1000.0, energy_j / time_ms * 1e3, time_ms, energy_j, 3)


SWEEP = Sweep(
    "r", "bert", "clock_mhz", 1, (step(None, 10, 4.0), step(1200, 11, 3.0), step(600, 20, 3.5)), power=None, time=None
)


def test_each_step_is_placed_relative_to_the_default_and_the_best_is_marked():
    figure = sweep_figure(SimpleNamespace(sweeps=(SWEEP,)))
    seen = [(row["set"], row["time"], row["energy"], row["best"], row["ends"]) for row in figure.rows]
    assert seen == [
        ("default", 1.0, 1.0, False, False),
        ("1,200 MHz", pytest.approx(1.1), 0.75, True, False),
        ("600 MHz", 2.0, 0.875, False, True),
    ]


def test_clocks_and_power_limits_have_panels_of_their_own():
    limits = Sweep("r", "bert", "power_w", 1, SWEEP.steps, power=None, time=None)
    figure = sweep_figure(SimpleNamespace(sweeps=(SWEEP, limits)))
    assert {row["panel"] for row in figure.rows} == {
        "energy of a request under locked clocks",
        "energy of a request under power limits",
    }
    assert {row["set"] for row in figure.rows} >= {"600 MHz", "600 W"}


def test_without_a_sweep_the_figure_says_what_it_needs():
    found = sweep_figure(SimpleNamespace(sweeps=()))
    assert isinstance(found, Absent)
