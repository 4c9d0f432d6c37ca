"""What estimates are by definition: each against its textbook formula, written out plainly here, or worked by hand."""

import math
from statistics import NormalDist, mean, median, stdev

import numpy as np
import pytest
from scipy import optimize, stats

from cotenant.analyse.estimates import autocorrelation, distributions, intervals, quantiles, robust
from cotenant.analyse.estimates.distributions import student_t
from cotenant.analyse.estimates.effects import equivalence, holm, independent_effect
from cotenant.tenancy.interval import Estimate, Missing


def ar(n, rho, seed=0):
    noise = np.random.default_rng(seed).normal(size=n)
    series = [float(noise[0])]
    for value in noise[1:]:
        series.append(rho * series[-1] + float(value))
    return np.array(series)


# --- an estimate


@pytest.mark.parametrize(
    ("est", "lo", "hi", "half"),
    [
        (10.0, 9.0, 12.0, 0.15),
        (-10.0, -12.0, -9.0, 0.15),
        (0.0, -1.0, 1.0, None),
        (1.0, None, 2.0, None),
        (1.0, 0.5, None, None),
    ],
)
def test_half_an_interval_is_a_share_of_the_estimate(est, lo, hi, half):
    assert Estimate(est, lo, hi, 3, "").relative_half_width == (None if half is None else pytest.approx(half))


@pytest.mark.parametrize(
    ("df", "level", "t"), [(1, 0.95, 12.7062), (4, 0.95, 2.7764), (10, 0.99, 3.1693), (math.inf, 0.9, 1.6449)]
)
def test_two_sided_students_t(df, level, t):
    assert student_t(df, level) == pytest.approx(t, abs=1e-4)


# --- distributions at their edges


@pytest.mark.parametrize(
    ("a", "b", "x", "p"),
    [
        (2, 3, -0.1, 0.0),
        (2, 3, 0.0, 0.0),
        (2, 3, 1.0, 1.0),
        (2, 3, 1.2, 1.0),
        (1, 1, 0.3, 0.3),
        (2, 1, 0.5, 0.25),
        (1, 2, 0.5, 0.75),
    ],
)
def test_the_beta_function_by_hand(a, b, x, p):
    assert distributions.beta_cdf(a, b, x) == pytest.approx(p, abs=1e-15)


def test_distributions_are_exact_to_twelve_digits():
    for a, b, x in ((0.7, 2.2, 0.2), (40.0, 3.0, 0.97), (5e3, 12.0, 0.9981), (3.0, 3.0, 0.5)):
        assert distributions.beta_cdf(a, b, x) == pytest.approx(stats.beta.cdf(x, a, b), rel=1e-11)
        p = distributions.beta_cdf(a, b, x)
        assert distributions.beta_quantile(a, b, p) == pytest.approx(x, rel=1e-11)
    for df, p in ((1.3, 0.2), (7.0, 0.975), (350.0, 0.9999)):
        assert distributions.t_quantile(df, p) == pytest.approx(stats.t.ppf(p, df), rel=1e-11)
        assert distributions.t_quantile(df, 1 - p) == -distributions.t_quantile(df, p)


# --- means


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


# --- Huber's mean


def proposal_2(data):
    """Location and scale that solve Huber's two equations, by a general solver."""
    expected = stats.norm.expect(lambda z: np.minimum(z**2, 4.0))
    n = len(data)

    def equations(guess):
        z = np.clip((data - guess[0]) / guess[1], -2, 2)
        return z.sum(), (z**2).sum() - (n - 1) * expected

    location, scale = optimize.fsolve(equations, (median(data), stdev(data)), xtol=1e-12)
    return location, abs(scale)


@pytest.mark.parametrize("far", [0.0, 4.0, 9.0, -30.0])
def test_huber_solves_both_equations(far):
    data = np.append(np.random.default_rng(8).normal(3, 1, 24), 3 + far)
    location, scale = proposal_2(data)
    found = robust.huber(data)
    assert (found.location, found.scale) == pytest.approx((location, scale), rel=1e-6)
    z = (data - location) / scale
    assert found.weights == pytest.approx(np.minimum(1, 2 / np.maximum(np.abs(z), 1e-9)), rel=1e-5)
    assert found.reduced == (np.abs(z) > 2).sum()
    inside = (np.abs(z) < 2).mean()
    assert found.influence == pytest.approx(location + scale * np.clip(z, -2, 2) / inside, rel=1e-5)


def test_huber_of_equal_and_of_too_few_values():
    found = robust.huber(np.full(4, 7.0))
    assert (found.location, found.scale, found.reduced) == (7.0, 0.0, 0)
    assert found.weights.tolist() == [1, 1, 1, 1]
    assert found.influence.tolist() == [7, 7, 7, 7]
    assert robust.huber(np.array([1.0, 3.0])).location == 2.0
    with pytest.raises(ValueError, match="at least two"):
        robust.huber(np.array([1.0]))


# --- the canary


def canary_case(blocks=20, known=20, slope=0.8, noise=0.0, shift=0.0):
    x = np.resize([0.01, -0.01, 0.02, -0.02], known) + shift
    y = np.full(blocks, 0.3)
    y[:known] += slope * x
    y += noise * np.resize([1, 1, -1, -1], blocks)
    return dict(enumerate(y)), dict(enumerate(x))


@pytest.mark.parametrize(("slope", "removed"), [(0.8, 0.8), (1.4, 1.4), (3.0, 1.5), (-0.8, 0.0)])
def test_what_the_canary_explains_is_taken_out_up_to_a_slope_of_one_and_a_half(slope, removed):
    ratios, canaries = canary_case(slope=slope)
    expected = {block: value - removed * canaries[block] for block, value in ratios.items()}
    assert robust.adjusted(ratios, canaries) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("case", "used"),
    [
        ({"blocks": 12, "known": 12}, True),
        ({"blocks": 11, "known": 11}, False),
        ({"blocks": 20, "known": 16}, True),
        ({"blocks": 20, "known": 15}, False),
        ({"noise": 0.02}, True),
        ({"noise": 0.08}, False),
        ({"shift": 0.005}, True),
        ({"shift": 0.0065}, False),
        ({"shift": 0.03}, False),
    ],
)
def test_a_canary_is_used_if_it_is_known_related_and_alike_in_both_cells(case, used):
    ratios, canaries = canary_case(**case)
    assert (robust.adjusted(ratios, canaries) != ratios) is used


def test_a_canary_that_never_moves_or_ratios_that_never_do_change_nothing():
    ratios, canaries = canary_case()
    assert robust.adjusted(ratios, dict.fromkeys(canaries, 0.0)) == ratios
    assert robust.adjusted(dict.fromkeys(ratios, 0.3), canaries) == dict.fromkeys(ratios, 0.3)
    wide = np.resize([3.0, -2.9], 40)
    assert not robust.usable(wide)
    assert robust.usable(np.resize([0.05, -0.011], 30)) is False
    assert robust.usable(np.resize([0.02, -0.02], 30))


# --- correlation


@pytest.mark.parametrize(
    ("data", "expected"), [([1, 2, 3, 4], [0.25, -0.3]), ([1, -1, 1, -1], [-0.75, 0.5]), ([2, 2, 2], [0, 0])]
)
def test_correlations_at_each_lag_by_hand(data, expected):
    assert autocorrelation.lags(np.array(data, float), 2) == pytest.approx(expected)


def test_correlation_of_neighbours_counts_beyond_its_standard_error_without_the_bias_of_short_series():
    data = ar(50, 0.6, 4)
    own = float(autocorrelation.lags(data, 1)[0])
    assert autocorrelation.lag_correlation(data) == pytest.approx(own + (1 + 3 * own) / 50)
    assert autocorrelation.lag_correlation(np.arange(100.0)) == 0.9
    assert autocorrelation.lag_correlation(np.resize([1.0, -1.0], 40)) == 0.0
    weak = next(
        series for seed in range(99) if 0 < autocorrelation.lags(series := ar(50, 0.0, seed), 1)[0] < 1 / math.sqrt(50)
    )
    assert autocorrelation.lag_correlation(weak) == 0.0


def test_the_common_correlation_is_that_of_all_series_by_length():
    series = [ar(40, 0.7, 5), ar(120, 0.7, 7), ar(11, 0.5, 3)]
    kept = [robust.huber(values).influence for values in series[:2]]
    reach = 10
    centred = [values - values.mean() for values in kept]
    raw = [
        sum(c.size * float((c[lag:] * c[:-lag]).sum() / (c**2).sum()) for c in centred) / 160
        for lag in range(1, reach + 1)
    ]
    inflation = 1.0
    for _ in range(5):
        total = sum(
            min(1, max(0, 2 * (1 - lag / (reach + 1)))) * (raw[lag - 1] + inflation / 80) for lag in range(1, reach + 1)
        )
        inflation = min(max(1 + 2 * total, 1.0), 8.0)
    found = autocorrelation.common_correlation(series)
    assert found.inflation == pytest.approx(inflation)
    assert 1.5 < inflation < 8
    assert found.neighbours == pytest.approx(raw[0] + (1 + 3 * raw[0]) / 80)
    assert autocorrelation.common_correlation([series[2]]) is None
    assert autocorrelation.common_correlation([ar(12, 0.0)]) is not None
    assert autocorrelation.common_correlation([np.arange(300.0)]).inflation == 8.0
    assert autocorrelation.common_correlation([np.resize([1.0, -1.0], 40)]).inflation == 1.0


def test_a_series_keeps_its_own_correlation_if_it_is_clearly_larger():
    data = ar(100, 0.5, 6)
    own = float(autocorrelation.lags(data, 1)[0])
    assert autocorrelation.Common(own - 0.249, 8.0).holds_for(data)
    assert not autocorrelation.Common(own - 0.251, 8.0).holds_for(data)
    slow = ar(100, 0.9, 6)
    assert autocorrelation.Common(0.9, 8.0).holds_for(slow)
    assert not autocorrelation.Common(0.9, 1.0).holds_for(slow), "more distant blocks are correlated too"


@pytest.mark.parametrize(
    ("size", "trials", "cuts"),
    [
        (24, 1, list(range(0, 25, 2))),
        (10, 6, [0, 5, 10]),
        (7, 5, [0, 2, 4, 7]),
        (2, 1, [0, 1, 2]),
        (9, 12, [0, 9]),
        (9, 50, [0, 9]),
    ],
)
def test_trials_are_cut_so_that_there_are_twelve_stretches(size, trials, cuts):
    assert autocorrelation.stretch_bounds(size, trials).tolist() == cuts


def stretches(sizes, hits):
    return autocorrelation.Stretches(np.array(sizes), np.array(hits))


def cluster_effect(sizes, hits):
    """Kish's design effect of a ratio over clusters, with doubt about the variance."""
    k, total, share = len(sizes), sum(sizes), sum(hits) / sum(sizes)
    variance = k / (k - 1) * sum((h - share * s) ** 2 for s, h in zip(sizes, hits, strict=True)) / total**2
    return variance / (share * (1 - share) / total) * (stats.t.ppf(0.975, k - 1) / stats.norm.ppf(0.975)) ** 2


def test_the_design_effect_is_the_larger_of_that_between_stretches_and_between_trials():
    even = [stretches([10, 10, 10], [9, 0, 3]), stretches([10, 10, 10], [1, 8, 3])]
    assert autocorrelation.design_effect(even) == pytest.approx(cluster_effect([10] * 6, [9, 0, 3, 1, 8, 3]))
    apart = [stretches([10, 12], [1, 1]), stretches([10, 10], [8, 9]), stretches([11, 10], [1, 0])]
    pooled = cluster_effect([22, 20, 21], [2, 17, 1])
    assert pooled > cluster_effect([10, 12, 10, 10, 11, 10], [1, 1, 8, 9, 1, 0])
    assert autocorrelation.design_effect(apart) == pytest.approx(pooled)
    single = [stretches([10], [1]), stretches([10], [8])]
    assert autocorrelation.design_effect(single) == pytest.approx(cluster_effect([10, 10], [1, 8]))


@pytest.mark.parametrize("hits", [[0, 0], [10, 10], [3, 3]])
def test_without_variation_between_clusters_each_request_counts(hits):
    assert autocorrelation.design_effect([stretches([10], [h]) for h in hits]) == 1.0
    assert autocorrelation.design_effect([stretches([10], [3])]) == 1.0


# --- quantiles


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, 1.5])
def test_quantiles_lie_between_zero_and_one(bad):
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantiles.needed_for(bad)


def test_ranks_of_few_values_use_the_ends_and_all_of_the_remaining_chance():
    for n, q in ((6, 0.5), (29, 0.9), (35, 0.9), (59, 0.95), (60, 0.05), (30, 0.1), (9, 0.5)):
        lo, hi = quantiles.interval_ranks(n, q)
        inside = [
            (b - a, a, b) for a in range(1, n) for b in range(a + 1, n + 1)
            if stats.binom.cdf(b - 1, n, q) - stats.binom.cdf(a - 1, n, q) >= 0.95
        ]  # fmt: skip
        assert (hi - lo, lo, hi) in inside
        if lo == 1:
            assert hi == min(b for _, a, b in inside if a == 1)
        elif hi == n:
            assert lo == max(a for _, a, b in inside if b == n)
    with pytest.raises(ValueError, match="28 values can't enclose"):
        quantiles.interval_ranks(28, 0.9)


def test_correlated_requests_spread_the_ranks_or_leave_the_ends_open():
    assert quantiles._spread_ranks(1000, 0.5, 1.0) == quantiles.interval_ranks(1000, 0.5)
    lo, hi = quantiles.interval_ranks(250, 0.5)
    assert quantiles._spread_ranks(1000, 0.5, 4.0) == (4 * lo, 4 * hi)
    lo, hi = quantiles.interval_ranks(333, 0.5)
    assert quantiles._spread_ranks(1000, 0.5, 3.0) == (math.floor(lo / 333 * 1000), math.ceil(hi / 333 * 1000))
    assert quantiles._spread_ranks(1000, 0.99, 4.0) == (None, None)
    assert quantiles._spread_ranks(299 * 2, 0.99, 2.0) != (None, None)
    assert quantiles._spread_ranks(299 * 2 - 1, 0.99, 2.0) == (None, None)


def test_a_correlated_quantile_says_what_its_requests_are_worth():
    values = np.repeat(np.arange(1, 13) * 100, 50).astype(np.int64)
    found = quantiles.latency_quantiles([values], (0.9,))[0.9]
    assert (found.lo, found.hi, found.est) == (None, None, 1100.0)
    worth = 600 / cluster_effect([50] * 12, [int((values[i : i + 50] > 1100).sum()) for i in range(0, 600, 50)])
    assert found.needs_n == math.ceil(29 * 600 / worth)
    assert found.reason == f"requests are correlated: 600 are worth {round(worth)} independent ones"
    assert found.method.endswith("one trial")
    assert quantiles.latency_quantiles([values, values], (0.5,))[0.5].method.endswith(f"{cluster_text(values)}")


def cluster_text(values):
    late = [int((values[i : i + 100] > 600).sum()) for i in range(0, 600, 100)]
    return f"design effect {cluster_effect([100] * 12, late * 2):.1f}"


def test_unfinished_requests_are_spread_over_the_stretches_of_their_trial():
    cut = quantiles._cut([np.arange(24), np.arange(12)], [7])
    assert [trial.late.tolist() for trial in cut] == [[1, 1, 1, 1, 1, 2], [0] * 6]
    assert cut[0].sizes.tolist() == [5, 5, 5, 5, 5, 6]
    assert quantiles._cut([np.arange(0)], [0]) == []
    late = quantiles._exceedances(cut, 3)
    assert late[0].hits.tolist() == [1, 5, 5, 5, 5, 6]


def test_what_is_missing_says_why():
    assert Missing("none", 3).to_json() == {"est": None, "lo": None, "hi": None, "n": 3, "reason": "none"}
    assert Missing("few", 3, 29).to_json()["needs_n"] == 29
    row = {"est": 1.0, "lo": 0.5, "hi": 2.0, "n": 9, "method": "t"}
    assert Estimate(1.0, 0.5, 2.0, 9, "t").to_json() == row
    assert Estimate(1.0, 0.5, 2.0, 9, "t", 29, "few").to_json() == row | {"needs_n": 29, "reason": "few"}


# --- effects


def test_the_ratio_of_two_geometric_means_is_welchs():
    a, b = [2.0, 3.0, 2.5, 2.2], [1.0, 1.3, 0.9]
    found = independent_effect(a, b)
    logs = np.log(a), np.log(b)
    test = stats.ttest_ind(*logs, equal_var=False)
    inside = test.confidence_interval(0.95)
    assert found.ratio.est == pytest.approx(math.exp(logs[0].mean() - logs[1].mean()))
    assert (found.ratio.lo, found.ratio.hi) == pytest.approx((math.exp(inside.low), math.exp(inside.high)))
    assert (found.p_value, found.df, found.ratio.n) == (pytest.approx(test.pvalue), pytest.approx(test.df), 3)
    spread = math.sqrt((logs[0].var(ddof=1) + logs[1].var(ddof=1)) / 2)
    assert found.standardised == pytest.approx(found.log_ratio / spread * (1 - 3 / (4 * test.df - 1)))


def test_effects_without_spread_and_without_replicates():
    same = independent_effect([2.0, 2.0], [2.0, 2.0, 2.0])
    assert (same.p_value, same.standardised, same.df, same.standard_error) == (1.0, None, 3, 0.0)
    assert independent_effect([4.0, 4.0], [2.0, 2.0]).p_value == 0.0
    for a, b in (([1.0], [1.0, 2.0]), ([1.0, 2.0], [1.0])):
        with pytest.raises(ValueError, match="two replicates"):
            independent_effect(a, b)


def test_equivalence_is_two_one_sided_tests():
    effect = independent_effect([1.0, 1.02, 0.99, 1.01], [1.0, 0.98, 1.01, 1.0])
    found = equivalence(effect, 0.05)
    distance = (abs(effect.log_ratio) - math.log(1.05)) / effect.standard_error
    assert found.p_value == pytest.approx(stats.t.cdf(distance, effect.df))
    reach = abs(effect.log_ratio) + stats.t.ppf(0.95, effect.df) * effect.standard_error
    assert found.within == pytest.approx(math.exp(reach) - 1)
    assert equivalence(effect, found.within).p_value == pytest.approx(0.05)
    exact = independent_effect([1.05, 1.05], [1.0, 1.0])
    assert [equivalence(exact, margin).p_value for margin in (0.04, 0.06)] == [1.0, 0.0]
    assert equivalence(exact, 0.06).holds()
    with pytest.raises(ValueError, match="above 0"):
        equivalence(exact, 0.0)


@pytest.mark.parametrize(
    ("raw", "adjusted"), [([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]), ([0.5, 0.6], [1.0, 1.0]), ([0.0, 1.0], [0.0, 1.0])]
)
def test_holm_steps_down(raw, adjusted):
    assert holm(raw).tolist() == pytest.approx(adjusted)


@pytest.mark.parametrize("bad", [[-0.1], [1.1]])
def test_holm_refuses_what_is_no_chance(bad):
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm(bad)
