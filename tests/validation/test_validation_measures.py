"""Errors are taken over held-out rows only, for the simulation and for every baseline."""

import math

import numpy as np
import pytest

from validation.longhorn import whiskers
from validation.measures import absolute_error, rank_correlation, spearman
from validation.result import Measure, Result, Row, Target

ROWS = (
    Row("a", measured=1.0, simulated=1.1, baselines={"constant": 2.0}),
    Row("b", measured=2.0, simulated=1.6, baselines={"constant": 2.0}),
    Row("c", measured=4.0, simulated=4.0, baselines={"constant": 2.0}, held_out=False),
)


def test_error_counts_held_out_rows_only():
    measure = absolute_error(ROWS, of="time")
    assert measure.value == pytest.approx((10 + 20) / 2)
    assert measure.n == 2
    assert measure.fitted == pytest.approx(0.0)
    assert measure.baselines == {"constant": pytest.approx((100 + 0) / 2)}


def test_median_and_mean_are_distinguished():
    rows = [Row("x", 1.0, 1.0 + error) for error in (0.0, 0.1, 0.8)]
    assert absolute_error(rows, of="time").value == pytest.approx(30)
    assert absolute_error(rows, of="time", average="median").value == pytest.approx(10)


def test_a_baseline_that_some_rows_lack_is_left_out():
    rows = (*ROWS, Row("d", 1.0, 1.0, baselines={"other": 1.0}))
    assert absolute_error(rows, of="time").baselines == {}


def test_without_held_out_rows_there_is_no_figure_and_no_verdict():
    measure = absolute_error(ROWS[2:], of="time", target=Target(high=50))
    assert math.isnan(measure.value)
    assert measure.reached is None


def test_rank_correlation_has_signs_ties_and_constants():
    assert spearman(np.array([1.0, 2, 3]), np.array([10.0, 20, 30])) == pytest.approx(1)
    assert spearman(np.array([1.0, 2, 3]), np.array([3.0, 2, 1])) == pytest.approx(-1)
    assert spearman(np.array([1.0, 2, 3]), np.array([5.0, 5, 5])) == 0
    assert rank_correlation(ROWS, of="time", target=Target(low=0.97)).reached


@pytest.mark.parametrize(
    ("target", "value", "reached"),
    [(Target(high=8), 8.0, True), (Target(high=8), 8.1, False), (Target(7.7, 9.7), 7.6, False), (None, 1.0, None)],
)
def test_targets(target, value, reached):
    assert Measure("m", value, "%", 1, target).reached is reached


def test_a_result_names_what_it_missed():
    good, bad = Measure("good", 1, "%", 1, Target(high=2)), Measure("bad", 3, "%", 1, Target(high=2))
    result = Result("x", "what", "source", "split", "time", "s", ROWS, (good, bad))
    assert result.missed == (bad,)
    assert (result.n, result.n_held_out) == (3, 2)


def test_whiskers_leave_outliers_out():
    values = np.concatenate((np.linspace(95, 105, 101), [200.0]))
    assert whiskers(values) == pytest.approx(10.0, abs=0.1)
