"""Quantiles and rates of what was watched, by hand."""

import math

import numpy as np
import pytest

from cotenant.analyse.neighbours import watching
from cotenant.analyse.neighbours.totals import Totals

BUCKETS = {0.1: 50.0, 0.2: 90.0, 0.5: 100.0, math.inf: 100.0}


@pytest.mark.parametrize(("q", "seconds"), [(0.51, 0.1025), (0.7, 0.15), (0.9, 0.2), (0.95, 0.35)])
def test_quantiles_are_interpolated_within_a_bucket(q, seconds):
    assert watching.bucket_quantile(BUCKETS, q) == pytest.approx(seconds)


def test_of_a_quantile_in_the_first_bucket_only_its_bound_is_known():
    assert watching.bucket_quantile({0.1: 6.0}, 0.5) == 0.1
    assert watching.bucket_quantile(BUCKETS, 0.5) == 0.1
    assert watching.bucket_quantile(BUCKETS, 0.25) == 0.1


def test_quantiles_of_few_or_endless_times_are_not_given():
    assert watching.bucket_quantile(BUCKETS, 0.99) is None, "needs 299"
    assert watching.bucket_quantile({0.1: 50.0, math.inf: 100.0}, 0.9) is None
    assert watching.bucket_quantile({}, 0.5) is None
    assert watching.bucket_points(BUCKETS, 4) == pytest.approx([0.025, 0.075, 0.13125, 0.19375])
    assert watching.bucket_points({}, 4) == []
    assert watching.bucket_points({math.inf: 4.0}, 4) == []


def totals(values, step=1.0):
    return Totals(step * np.arange(len(values)), np.array(values, float))


def watched(**roles):
    return watching.TenantTotals("a", "s", roles)


def test_growth_leaves_restarts_out_and_means_divide_it():
    tenant = watched(
        requests=totals([0, 5, 9, 1, 3]),
        latency_s=totals([0, 1, 2, 0, 1]),
        latency_count=totals([0, 5, 9, 1, 3]),
        one=totals([7]),
    )
    assert watching._grown(tenant, "requests") == 11
    assert (watching._grown(tenant, "one"), watching._grown(tenant, "none")) == (0.0, 0.0)
    assert watching._mean(tenant, "latency_s", "latency_count") == pytest.approx(3 / 11)
    assert watching._mean(tenant, "latency_s", "none") is None
    assert watching._mean(tenant, "none", "requests") is None


def test_the_variation_of_gaps_from_counts():
    counts = np.array([4, 6, 4, 6, 4, 6, 4, 6, math.nan])
    assert watching._cv(counts) == pytest.approx(math.sqrt(4 / 2 / 5))
    assert watching._cv(counts[:7]) is None
    assert watching._cv(np.zeros(9)) is None


@pytest.mark.parametrize(
    ("period", "latency", "seconds", "step"),
    [
        (1.0, 0.1, 900, 3.0),
        (1.0, 0.1, 901, 10.0),
        (2.0, 0.1, 100, 5.0),
        (1.0, 2.0, 100, 10.0),
        (1.0, 1.0, 100, 3.0),
        (1.0, 999, 100, 300.0),
    ],
)
def test_intervals_are_long_enough_for_two_readings_and_most_requests(period, latency, seconds, step):
    tenant = watched(
        requests=totals(range(9), period),
        latency_s=totals(np.arange(9) * latency, period),
        latency_count=totals(range(9), period),
    )
    assert watching._step([tenant], seconds) == step
