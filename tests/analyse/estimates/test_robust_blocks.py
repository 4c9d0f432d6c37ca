"""The mean over blocks: the influence of a disturbed block, and the coverage of its intervals."""

import numpy as np
import pytest

from cotenant.analyse.estimates.intervals import FIRST_LOOK, anytime_interval, block_interval, mean_interval
from cotenant.analyse.estimates.robust import BOUND, huber

pytestmark = pytest.mark.slow


def normal(rng, n):
    return rng.normal(size=n)


def correlated(rng, n, rho=0.4):
    noise = rng.normal(size=n + 50) * np.sqrt(1 - rho**2)
    series = np.zeros(n + 50)
    for place in range(1, n + 50):
        series[place] = rho * series[place - 1] + noise[place]
    return series[50:]


def disturbed(rng, n):
    return rng.normal(size=n) + (rng.random(n) < 0.1) * rng.choice([-6, 6], n)


def held(values_of, n, studies=400):
    rng = np.random.default_rng(11)
    found = [block_interval(values_of(rng, n)) for _ in range(studies)]
    return np.mean([one.lo <= 0 <= one.hi for one in found])


def test_one_block_far_away_hardly_moves_the_mean():
    calm = np.random.default_rng(1).normal(size=40)
    spoiled = np.append(calm, 50.0)
    assert abs(huber(spoiled).location - calm.mean()) < 0.2 < abs(spoiled.mean() - calm.mean())
    assert huber(spoiled).weights[-1] < 0.1
    assert huber(spoiled).reduced >= 1


def test_the_price_on_normal_blocks_is_one_percent():
    rng = np.random.default_rng(2)
    samples = rng.normal(size=(2000, 40))
    price = np.var([huber(one).location for one in samples]) / np.var(samples.mean(axis=1))
    assert price == pytest.approx(1.01, abs=0.02)


def test_two_levels_are_a_result_and_not_outliers():
    """Three tenants on two cores: in a third of the blocks a tenant has a core to itself."""
    levels = np.array([0.0, 0.69, 0.69] * 20)
    assert huber(levels).location == pytest.approx(levels.mean(), abs=0.02)


def test_equal_values_have_no_spread():
    found = block_interval(np.full(20, 0.3))
    assert (found.est, found.lo, found.hi) == pytest.approx((0.3, 0.3, 0.3))


def test_few_blocks_are_averaged_plainly():
    values = [0.1, 0.2, 0.4]
    assert block_interval(values) == mean_interval(values)


@pytest.mark.parametrize("n", [20, 60])
def test_intervals_contain_the_truth_as_often_as_stated(n):
    assert held(normal, n) >= 0.93
    assert held(disturbed, n) >= 0.93


def test_intervals_of_correlated_blocks_are_wider_and_hold():
    assert held(correlated, 60) >= 0.91
    rng = np.random.default_rng(3)
    plain = np.mean([m.hi - m.lo for m in (mean_interval(correlated(rng, 60)) for _ in range(50))])
    rng = np.random.default_rng(3)
    found = np.mean([m.hi - m.lo for m in (block_interval(correlated(rng, 60)) for _ in range(50))])
    assert found > 1.2 * plain


def test_the_influences_average_to_the_location():
    values = disturbed(np.random.default_rng(4), 50)
    found = huber(values)
    assert found.influence.mean() == pytest.approx(found.location)
    assert np.abs(found.influence - found.location).max() <= BOUND * found.scale / 0.5


def test_an_interval_checked_after_every_block_misses_in_few_runs():
    rng = np.random.default_rng(5)
    ever_wrong = ever_wrong_plainly = 0
    for _ in range(60):
        logs = 0.05 * rng.normal(size=120)
        watched = [anytime_interval(logs[:n]) for n in range(FIRST_LOOK, 121, 6)]
        plain = [block_interval(logs[:n]) for n in range(FIRST_LOOK, 121, 6)]
        ever_wrong += any(not one.lo <= 1 <= one.hi for one in watched)
        ever_wrong_plainly += any(not one.lo <= 0 <= one.hi for one in plain)
    assert ever_wrong <= 3 < ever_wrong_plainly


def test_there_is_nothing_to_look_at_before_the_spread_is_known():
    assert anytime_interval(np.zeros(FIRST_LOOK - 1)).lo is None
