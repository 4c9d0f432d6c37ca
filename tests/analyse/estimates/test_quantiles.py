import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cotenant.analyse.estimates.quantiles import interval_ranks, latency_quantiles, needed_for


def latency_quantile(per_trial, q, unfinished=()):
    return latency_quantiles(per_trial, (q,), unfinished)[q]


@pytest.mark.parametrize(("q", "n"), [(0.5, 6), (0.9, 29), (0.95, 59), (0.99, 299), (0.999, 2995)])
def test_a_quantile_needs_this_many_requests(q, n):
    assert needed_for(q) == n
    assert needed_for(1 - q) == n or q == 0.5


@pytest.mark.parametrize(("n", "ranks"), [(1000, (983, 997)), (10_000, (9880, 9920))])
def test_ranks_of_the_p99(n, ranks):
    assert interval_ranks(n, 0.99) == ranks


@settings(max_examples=300)
@given(st.sampled_from([0.01, 0.1, 0.5, 0.9, 0.95, 0.99]), st.integers(0, 3000))
def test_ranks_cover_exactly_by_the_binomial(q, beyond):
    n = needed_for(q) + beyond
    lo, hi = interval_ranks(n, q)
    assert 1 <= lo < hi <= n
    assert stats.binom.cdf(hi - 1, n, q) - stats.binom.cdf(lo - 1, n, q) >= 0.95
    tight = stats.binom.cdf(hi - 2, n, q) - stats.binom.cdf(lo, n, q)
    assert tight < 0.95, "an interval narrower on both sides would do"


@given(st.lists(st.integers(0, 10**12), min_size=59, max_size=400), st.integers(1, 5))
def test_the_estimate_is_the_order_statistic_however_requests_are_split_over_trials(data, trials):
    values = np.array(data, dtype=np.int64)
    found = latency_quantiles(np.array_split(values, trials), (0.5, 0.95))
    ordered = np.sort(values)
    for q, estimate in found.items():
        assert estimate.est == ordered[math.ceil(q * values.size) - 1]
        assert estimate.lo is None or estimate.lo <= estimate.est
        assert estimate.hi is None or estimate.hi >= estimate.est


def test_too_few_requests_are_refused_with_the_number_needed():
    estimate = latency_quantile([np.arange(120)], 0.99)
    assert (estimate.est, estimate.lo, estimate.hi, estimate.n, estimate.needs_n) == (None, None, None, 120, 299)
    assert estimate.to_json()["needs_n"] == 299


def test_one_request_more_or_less_decides():
    data = np.random.default_rng(0).integers(1, 10**6, 299)
    assert latency_quantile([data[:298]], 0.99).est is None
    assert latency_quantile([data], 0.99).est is not None


def test_no_request_at_all_is_refused_too():
    assert latency_quantile([], 0.5).needs_n == 6


def test_unfinished_requests_are_infinitely_late():
    done = np.arange(1, 981, dtype=np.int64)
    estimates = latency_quantiles([done], (0.5, 0.9, 0.99), unfinished=[20])
    assert estimates[0.5].est == 500
    assert estimates[0.5].n == 1000
    assert estimates[0.99].est is None
    assert estimates[0.99].needs_n is None, "more requests would not help"
    assert "20 of 1000" in estimates[0.99].reason


def test_an_interval_may_reach_into_the_unfinished():
    done = np.random.default_rng(1).permutation(np.arange(1, 996, dtype=np.int64))
    estimate = latency_quantile([done], 0.99, unfinished=[5])
    assert estimate.est == 990
    assert estimate.hi is None
    assert "infinite" in estimate.reason


def test_constant_latency_has_a_zero_width_interval():
    estimate = latency_quantile([np.full(100, 7)] * 3, 0.5)
    assert (estimate.est, estimate.lo, estimate.hi) == (7, 7, 7)


def test_the_input_is_not_modified():
    trials = [np.random.default_rng(0).integers(1, 1000, 500) for _ in range(2)]
    copies = [trial.copy() for trial in trials]
    latency_quantile(trials, 0.9)
    latency_quantile(trials[:1], 0.9)
    for trial, copy in zip(trials, copies, strict=True):
        np.testing.assert_array_equal(trial, copy)


def latencies(rng, trials, requests, *, trial_spread=0.0, correlation=0.0):
    noise = rng.normal(size=(trials, requests))
    if correlation:
        for i in range(1, requests):
            noise[:, i] = correlation * noise[:, i - 1] + math.sqrt(1 - correlation**2) * noise[:, i]
    logs = noise + trial_spread * rng.normal(size=(trials, 1))
    return list((1e6 * np.exp(0.3 * logs)).astype(np.int64)), math.sqrt(1 + trial_spread**2)


@pytest.mark.parametrize(
    ("conditions", "least"),
    [({}, 0.94), ({"correlation": 0.8}, 0.93), ({"trial_spread": 0.3}, 0.93)],
    ids=["independent", "queueing", "trials differ"],
)
def test_intervals_cover_under_correlation(conditions, least):
    rng = np.random.default_rng(4)
    truths = {q: stats.norm.ppf(q) for q in (0.5, 0.9, 0.99)}
    covered = dict.fromkeys(truths, 0)
    for _ in range(200):
        trials, spread = latencies(rng, 6, 600, **conditions)
        for q, estimate in latency_quantiles(trials, list(truths)).items():
            truth = 1e6 * math.exp(0.3 * spread * truths[q])
            covered[q] += (estimate.lo or 0) <= truth <= (estimate.hi or math.inf)
    assert min(covered.values()) / 200 >= least


def test_without_the_design_effect_differing_trials_would_not_cover():
    rng = np.random.default_rng(4)
    covered = []
    for _ in range(200):
        trials, _ = latencies(rng, 6, 600, trial_spread=0.3)
        pooled = np.sort(np.concatenate(trials))
        lo, hi = interval_ranks(pooled.size, 0.5)
        covered.append(pooled[lo - 1] <= 1e6 <= pooled[hi - 1])
    assert np.mean(covered) < 0.5


def test_a_stall_of_two_seconds_in_an_open_loop_is_in_the_p99():
    """100 requests/s for 60 s, one stall: requests due meanwhile are late, so the tail contains it."""
    latency = np.full(6000, 3_000_000, dtype=np.int64)
    latency[3000:3200] += np.linspace(2e9, 0, 200).astype(np.int64)
    assert latency_quantile([latency], 0.99).est > 1e9


def test_many_requests_cost_one_pass():
    data = np.random.default_rng(2).integers(1, 10**9, 2_000_000)
    estimates = latency_quantiles(np.array_split(data, 10), (0.5, 0.9, 0.95, 0.99, 0.999))
    assert estimates[0.999].est == np.sort(data)[math.ceil(0.999 * data.size) - 1]
