"""Quantiles: each against its textbook formula, written out plainly here, or worked by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from cotenant.analyse.estimates import quantiles
from tests.analyse.estimates.series import cluster_effect


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
