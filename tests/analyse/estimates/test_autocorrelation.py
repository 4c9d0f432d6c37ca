"""Correlation of neighbouring blocks: what all slowdowns of a run have in common, and what one has of its own."""

import numpy as np
import pytest

from cotenant.analyse.estimates.autocorrelation import common_correlation, lag_correlation
from cotenant.analyse.estimates.intervals import block_interval


def correlated(rng, n, rho):
    series = [rng.normal()]
    for _ in range(n - 1):
        series.append(rho * series[-1] + np.sqrt(1 - rho**2) * rng.normal())
    return np.array(series)


@pytest.mark.parametrize("rho", [0.0, 0.2, 0.5])
def test_a_dozen_series_tell_their_common_correlation(rho):
    rng = np.random.default_rng(1)
    found = [common_correlation([correlated(rng, 70, rho) for _ in range(12)]) for _ in range(20)]
    assert np.mean([one.neighbours for one in found]) == pytest.approx(rho, abs=0.04)
    assert np.mean([one.inflation for one in found]) == pytest.approx((1 + rho) / (1 - rho), rel=0.15)


def test_a_series_counts_by_its_length_and_not_by_its_spread():
    rng = np.random.default_rng(2)
    calm, wild = correlated(rng, 200, 0.6), rng.normal(size=200)
    assert common_correlation([calm, wild]) == pytest.approx(common_correlation([calm, 100 * wild]))


def test_short_series_tell_nothing():
    assert common_correlation([np.arange(11.0)]) is None
    assert common_correlation([]) is None


def test_chance_in_one_series_does_not_count_and_a_clear_excess_does():
    rng = np.random.default_rng(3)
    white = [rng.normal(size=70) for _ in range(200)]
    common = common_correlation(white)
    assert np.mean([lag_correlation(one) > 0 for one in white]) > 0.1
    assert np.mean([common.holds_for(one) for one in white]) > 0.97
    assert not common.holds_for(correlated(rng, 70, 0.7))


def test_two_of_a_dozen_that_drift_widen_themselves_and_not_the_others():
    rng = np.random.default_rng(6)
    steady, drifting = [], []
    for _ in range(20):
        series = [rng.normal(size=90) for _ in range(10)]
        series += [0.7 * correlated(rng, 90, 0.95) + 0.7 * rng.normal(size=90) for _ in range(2)]
        common = common_correlation(series)
        steady.append(common.inflation)
        drifting += [common.holds_for(one) for one in series[-2:]]
    assert np.mean(steady) < 1.3
    assert np.mean(drifting) < 0.35


def slow(rng, n, share):
    return np.sqrt(1 - share) * rng.normal(size=n) + np.sqrt(share) * correlated(rng, n, 0.8)


def test_slow_changes_of_the_machine_are_seen_in_all_series_together():
    rng = np.random.default_rng(5)
    held, held_alone = [], []
    for _ in range(30):
        series = [slow(rng, 70, 0.25) for _ in range(12)]
        common = common_correlation(series)
        held += [one.lo <= 0 <= one.hi for one in (block_interval(one, common=common) for one in series)]
        held_alone += [one.lo <= 0 <= one.hi for one in map(block_interval, series)]
    assert np.mean(held) >= 0.91
    assert np.mean(held_alone) < 0.88


@pytest.mark.parametrize("rho", [0.0, 0.15, 0.4])
def test_intervals_hold_and_the_widest_of_a_dozen_is_narrower(rho):
    rng = np.random.default_rng(4)
    held, widest, widest_alone = [], [], []
    for _ in range(40):
        series = [correlated(rng, 70, rho) for _ in range(12)]
        common = common_correlation(series)
        found = [block_interval(one, common=common) for one in series]
        alone = [block_interval(one) for one in series]
        held += [one.lo <= 0 <= one.hi for one in found]
        widest.append(max(one.hi - one.lo for one in found))
        widest_alone.append(max(one.hi - one.lo for one in alone))
    assert np.mean(held) >= 0.93
    assert np.mean(widest) < np.mean(widest_alone)
