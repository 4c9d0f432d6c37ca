"""Intervals of means and of blocks: each against its textbook formula, written out plainly here, or worked by hand."""

import math
from statistics import NormalDist, mean, stdev

import numpy as np
import pytest
from scipy import stats

from cotenant.analyse.estimates import autocorrelation, intervals, robust
from tests.analyse.estimates.series import ar


@pytest.mark.parametrize("n", [2, 11, 257, 300])
def test_few_and_very_many_replicates_have_students_interval(n):
    data = np.random.default_rng(n).normal(5, 2, n)
    found = intervals.mean_interval(data, 0.9)
    assert (found.est, found.n, found.method) == (pytest.approx(mean(data)), n, "Student t")
    half = stats.t.ppf(0.95, n - 1) * stdev(data) / math.sqrt(n)
    assert (found.lo, found.hi) == pytest.approx((mean(data) - half, mean(data) + half))


def expanded(n, level):
    """Hesterberg's expanded percentile, with half the degrees of freedom."""
    return NormalDist().cdf(-math.sqrt(n / (n - 1)) * stats.t.ppf((1 + level) / 2, n / 2))


@pytest.mark.parametrize("n", [12, 30, 256])
def test_the_bootstrap_takes_expanded_percentiles_of_resampled_means(n):
    data = np.random.default_rng(n).exponential(3, n)
    found = intervals.mean_interval(data, 0.95)
    assert found.method == "bootstrap"
    tail = expanded(n, 0.95)
    means = np.random.default_rng(1).choice(data, (40_000, n)).mean(axis=1)
    width = found.hi - found.lo
    assert (found.lo, found.hi) == pytest.approx(tuple(np.quantile(means, (tail, 1 - tail))), abs=0.04 * width)


def test_weights_of_resamples_are_shares():
    weights = intervals._weights(20)
    assert weights.shape == (4000, 20)
    assert weights.sum(axis=1) == pytest.approx(np.ones(4000))
    assert weights.mean() == pytest.approx(1 / 20)


@pytest.mark.parametrize(("logs", "typical"), [([0.0, math.log(4)], 2.0), ([math.log(3)], 3.0)])
def test_ratios_are_averaged_geometrically(logs, typical):
    found = intervals.ratio_interval(logs)
    assert found.est == pytest.approx(typical)
    assert found.n == len(logs)
    assert (found.lo is None) == (len(logs) == 1)


def test_ends_of_a_ratio_are_exponentials_of_the_ends_of_its_logarithm():
    logs = [0.1, 0.3, 0.5]
    half = 4.302653 * 0.2 / math.sqrt(3)
    found = intervals.ratio_interval(logs)
    assert (found.lo, found.hi) == pytest.approx((math.exp(0.3 - half), math.exp(0.3 + half)), rel=1e-6)


def test_a_quantity_that_reaches_zero_has_a_plain_mean_and_any_other_a_geometric_one():
    assert intervals.positive_interval([0.0, 4.0]).est == 2.0
    assert intervals.positive_interval([1.0, 4.0]).est == pytest.approx(2.0)
    assert intervals.positive_interval([1.0, 4.0, 2.0]).method == "Student t on logarithms"


def politis_white(data):
    """Politis and White (2004), with the correction of 2009, for the circular bootstrap: term by term."""
    n = len(data)
    centred = [value - mean(data) for value in data]

    def covariance(lag):
        return sum(centred[i] * centred[i + lag] for i in range(n - lag)) / n

    quiet = max(5, math.ceil(math.sqrt(math.log10(n))))
    most = min(n // 2, math.ceil(math.sqrt(n)) + max(5, math.ceil(math.log10(n))) + 200)
    bound = 2 * math.sqrt(math.log10(n) / n)
    loud = [abs(covariance(lag) / covariance(0)) > bound for lag in range(1, most + 1)]
    last = next((lag for lag in range(len(loud)) if not any(loud[lag : lag + quiet])), len(loud))
    width = min(max(1, 2 * last), most)
    terms = [
        (lag, min(1, max(0, 2 * (1 - abs(lag) / width))) * covariance(abs(lag))) for lag in range(-width, width + 1)
    ]
    slope, level = sum(abs(lag) * value for lag, value in terms), sum(value for _, value in terms)
    if level <= 0:
        return 1
    return min(max(1, math.ceil((2 * slope**2 / (4 / 3 * level**2)) ** (1 / 3) * n ** (1 / 3))), max(1, n // 3))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("n", "rho"), [(12, 0.5), (40, 0.0), (60, 0.6), (150, 0.9), (150, -0.5), (400, 0.7)])
def test_stretches_are_as_long_as_politis_and_white_say(n, rho, seed):
    data = ar(n, rho, seed)
    assert intervals._stretch_length(data) == politis_white(data)


def test_a_constant_series_needs_no_stretches():
    assert intervals._stretch_length(np.ones(30)) == 1


def test_a_correlated_mean_is_resampled_in_stretches_that_wrap_around():
    data = ar(600, 0.6, 3)
    found = intervals.correlated_mean_interval(data, 0.95, 15)
    assert found.method == "moving-block bootstrap, stretches of 15"
    assert (found.est, found.n) == (pytest.approx(data.mean()), 600)
    wrapped = np.concatenate((data, data[:14]))
    stretches = np.array([wrapped[start : start + 15].mean() for start in range(600)])
    means = np.random.default_rng(0).choice(stretches, (40_000, 40)).mean(axis=1)
    tail = expanded(40, 0.95)
    assert (found.lo, found.hi) == pytest.approx(
        tuple(np.quantile(means, (tail, 1 - tail))), abs=0.04 * (found.hi - found.lo)
    )


def test_a_correlated_mean_of_few_stretches_draws_two_and_of_few_values_is_refused():
    assert intervals.correlated_mean_interval(np.arange(12.0), length=11).lo < 5.5
    with pytest.raises(ValueError, match="at least 12 values, not 11"):
        intervals.correlated_mean_interval(np.arange(11.0))
    assert intervals.correlated_mean_interval(np.arange(12.0)).n == 12


@pytest.mark.parametrize(
    ("n", "most", "means"), [(4, 4, [0, 1, 2, 3]), (4, 2, [0.5, 2.5]), (5, 2, [0.5, 3.0]), (6, 3, [0.5, 2.5, 4.5])]
)
def test_long_series_are_averaged_over_neighbours(n, most, means):
    assert intervals.averaged(np.arange(float(n)), most).tolist() == means


def test_blocks_have_hubers_mean_and_students_interval_for_as_many_as_are_independent():
    data = np.random.default_rng(5).normal(size=30)
    while (
        autocorrelation.lag_correlation(robust.huber(data).influence)
        or intervals._stretch_length(robust.huber(data).influence) > 1
    ):
        data = np.random.default_rng(int(1e6 * abs(data[0]))).normal(size=30)
    influence = robust.huber(data).influence
    found = intervals.block_interval(data)
    half = stats.t.ppf(0.975, 29) * stdev(influence) / math.sqrt(30)
    assert (found.est, found.lo, found.hi) == pytest.approx(
        (influence.mean(), influence.mean() - half, influence.mean() + half)
    )
    assert found.method == "Student t, Huber's mean"
    common = autocorrelation.Common(0.2, 2.0)
    half = stats.t.ppf(0.975, 14) * stdev(influence) / math.sqrt(15)
    found = intervals.block_interval(data, common=common)
    assert (found.lo, found.hi) == pytest.approx((influence.mean() - half, influence.mean() + half))


def test_correlated_blocks_have_the_wider_of_two_intervals():
    data = ar(80, 0.7, 2)
    influence = robust.huber(data).influence
    alike = autocorrelation.lag_correlation(influence)
    assert alike > 0.3
    effective = 80 * (1 - alike) / (1 + alike)
    half = stats.t.ppf(0.975, effective - 1) * stdev(influence) / math.sqrt(effective)
    other = intervals.correlated_mean_interval(influence, length=intervals._stretch_length(influence))
    found = intervals.block_interval(data)
    centre = influence.mean()
    assert found.lo == pytest.approx(min(centre - half, other.lo))
    assert found.hi == pytest.approx(max(centre + half, other.hi))
    assert found.method.startswith("moving-block bootstrap")
    few = intervals.block_interval(ar(12, 0.95, 1))
    assert few.hi - few.lo > 0


@pytest.mark.parametrize(("n", "factor"), [(12, 3.36), (60, 3.06), (600, 3.3)])
def test_an_interval_for_every_look_is_wider(n, factor):
    """Howard et al. (2021), equation 14: a normal mixture that is tightest at 60 blocks."""
    rho2 = (-2 * math.log(0.05) + math.log(-2 * math.log(0.05) + 1)) / 60
    expected = math.sqrt((n * rho2 + 1) / (n * rho2) * math.log((n * rho2 + 1) / 0.05**2))
    assert intervals.anytime_factor(n) == pytest.approx(expected)
    assert intervals.anytime_factor(n) == pytest.approx(factor, rel=0.02)


def test_a_confidence_sequence_starts_at_twelve_blocks_and_widens_both_ends():
    logs = np.random.default_rng(3).normal(0.2, 0.1, 40)
    assert intervals.anytime_interval(logs[:11]).lo is None
    assert intervals.anytime_interval(logs[:12]).lo is not None
    found, plain = intervals.anytime_interval(logs), intervals.block_interval(logs)
    wider = intervals.anytime_factor(40) / stats.t.ppf(0.975, 39) * stats.t.ppf(0.975, 20) / 1.96
    assert math.log(found.est) - math.log(found.lo) == pytest.approx(wider * (plain.est - plain.lo))
    assert math.log(found.hi) - math.log(found.est) == pytest.approx(wider * (plain.hi - plain.est))
    few = intervals.anytime_interval(logs[:14])
    plain = intervals.block_interval(logs[:14])
    wider = intervals.anytime_factor(14) / stats.t.ppf(0.975, 13) * stats.t.ppf(0.975, 11) / 1.96
    assert math.log(few.hi / few.est) == pytest.approx(wider * (plain.hi - plain.est))
