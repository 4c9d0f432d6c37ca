"""Objectives and promises, by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from cotenant.analyse.estimates.autocorrelation import Stretches
from cotenant.analyse.judged_promises import JudgedPromise, _counted_trials, _stretches, promise_sentence
from cotenant.analyse.sharing import slo
from cotenant.tenancy.interval import Interval


@pytest.mark.parametrize(
    ("quantile", "late", "confidence", "needed"),
    [(0.9, 0, 0.99, 44), (0.99, 0, 0.99, 459), (0.99, 0, 0.95, 299), (0.99, 1, 0.99, 662), (0.5, 0, 0.95, 5)],
)
def test_requests_needed_are_those_of_the_binomial(quantile, late, confidence, needed):
    assert slo.queries_needed(quantile, late, confidence) == needed
    assert (
        stats.binom.cdf(late, needed, 1 - quantile) <= 1 - confidence < stats.binom.cdf(late, needed - 1, 1 - quantile)
    )


def test_attainment_decides_with_its_confidence():
    sure = slo.attainment([459], [459], 0.99)
    assert (sure.answer, sure.needs_n, sure.share.est) == ("met", None, 1.0)
    short = slo.attainment([458], [458], 0.99)
    assert short.answer == "undecided"
    assert 459 <= short.needs_n <= 460
    lost = slo.attainment([50], [100], 0.9)
    assert lost.answer == "missed"
    lo, hi = slo.binomial_interval(50, 100)
    inside = stats.binomtest(50, 100).proportion_ci(0.95, "exact")
    assert (lo, hi) == pytest.approx((inside.low, inside.high))
    assert slo.binomial_interval(0, 10)[0] == 0.0
    assert slo.binomial_interval(10, 10)[1] == 1.0
    edge = next(hits for hits in range(90, 0, -1) if slo.attainment([hits], [100], 0.9).answer == "missed")
    assert (
        stats.binomtest(edge, 100).proportion_ci(0.98, "exact").high
        < 0.9
        <= stats.binomtest(edge + 1, 100).proportion_ci(0.98, "exact").high
    )
    with pytest.raises(ValueError, match="at least one request"):
        slo.attainment([0], [0], 0.9)
    for bad in ((0.0, 0), (1.0, 0), (0.9, -1)):
        with pytest.raises(ValueError, match="between 0 and 1"):
            slo.queries_needed(*bad)


def test_requests_that_a_study_lacks():
    counted = slo.ObjectiveRequests()
    assert counted.lacking() == {}
    first, again = slo.queries_needed(0.99, 2), slo.queries_needed(0.99, 8)
    for n, late, times in (
        (100, 0, first / 100),
        (first, 0, None),
        (first, 3, again / first),
        (again, 9, None),
        (first, first, None),
    ):
        counted._seen, counted._late = {("cell", "t", 0.99): n}, {("cell", "t", 0.99): late}
        assert counted.lacking().get("cell") == (None if times is None else pytest.approx(times))


def promise(**more):
    return JudgedPromise(
        **{
            "tenant": "a",
            "objective": "p99",
            "limit_ms": 10.0,
            "quantile": 0.99,
            "requests": 100,
            "in_time": 90,
            "share": Interval(0.9, 0.8, 0.95),
            "verdict": "kept",
        }
        | more
    )


@pytest.mark.parametrize(
    ("measured", "lower", "upper", "outside"),
    [
        (12.0, 5.0, 10.0, 0.2),
        (4.0, 5.0, 10.0, -0.2),
        (7.0, 5.0, 10.0, 0.0),
        (10.0, 5.0, 10.0, 0.0),
        (5.0, 5.0, 10.0, 0.0),
        (None, 5.0, 10.0, None),
        (3.0, 0.0, 10.0, 0.0),
    ],
)
def test_how_far_outside_its_range_a_promise_lies(measured, lower, upper, outside):
    seen = None if measured is None else Interval(measured)
    found = promise(measured_ms=seen, expected_ms=Interval(7.0, lower, upper)).outside
    assert found == (None if outside is None else pytest.approx(outside))


@pytest.mark.parametrize(
    ("lo", "hi", "clearly"),
    [(10.1, 12.0, True), (10.0, 12.0, False), (3.0, 4.9, True), (3.0, 5.0, False), (None, None, False)],
)
def test_a_measured_interval_beside_the_range_is_clearly_outside(lo, hi, clearly):
    row = promise(measured_ms=Interval(7.0, lo, hi), expected_ms=Interval(7.0, 5.0, 10.0))
    assert row.clearly_outside is clearly
    assert not promise(measured_ms=Interval(7.0, lo, hi)).clearly_outside


def test_promises_in_a_sentence():
    rows = [
        promise(),
        promise(tenant="b", verdict="missed"),
        promise(tenant="b", verdict="missed"),
        promise(tenant="c", verdict="can't tell"),
    ]
    assert promise_sentence(rows) == "1 of 4 objectives kept; missed: b; can't tell: c"
    assert promise_sentence(rows[:1]) == "1 of 1 objective kept"


def test_buckets_bound_the_requests_in_time():
    buckets = [{0.1: 5.0, 0.2: 8.0, math.inf: 10.0}]
    for limit, low, high in ((0.15, 5, 8), (0.1, 5, 5), (0.2, 8, 8), (0.05, 0, 5), (0.3, 8, 10)):
        assert [int(_counted_trials(buckets, limit, high=side)[0].hits[0]) for side in (False, True)] == [low, high]
    assert _counted_trials([{0.1: 0.0}], 0.1, high=True) == []
    assert _counted_trials(buckets, 0.1, high=True)[0].sizes.tolist() == [10]


def test_requests_without_a_time_are_spread():
    found = _stretches(np.array([True, False, True, True]), 2, 3, 6)
    assert isinstance(found, Stretches)
    assert (found.sizes.tolist(), found.hits.tolist()) == ([5, 4], [3, 3])
