"""Our own distribution functions against scipy's."""

import itertools
import math

import numpy as np
import pytest
from scipy import special

from cotenant.analyse.estimates.distributions import (
    beta_cdf,
    beta_quantile,
    binomial_cdf,
    normal_cdf,
    t_cdf,
    t_quantile,
)

SIZES = (0.5, 1, 2.5, 10, 99.3, 1e3, 2.2e4, 1e6)
CHANCES = (1e-6, 0.005, 0.025, 0.3, 0.5, 0.9, 0.975, 0.99, 0.9999)


@pytest.mark.parametrize("a", SIZES)
def test_the_beta_distribution(a):
    for b, chance in itertools.product(SIZES, CHANCES):
        x = float(special.betaincinv(a, b, chance))
        if 0 < x < 1:
            assert beta_cdf(a, b, x) == pytest.approx(special.betainc(a, b, x), abs=1e-8)
            assert beta_quantile(a, b, chance) == pytest.approx(x, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("df", [1, 1.5, 2, 4.7, 23.3, 60, 500, 1e5, math.inf])
def test_students_t(df):
    for chance in (*CHANCES, 1 - 1e-7):
        expected = special.ndtri(chance) if math.isinf(df) else special.stdtrit(df, chance)
        assert t_quantile(df, chance) == pytest.approx(float(expected), rel=1e-8, abs=1e-12)
    for t in (-40.0, -5.0, -1.0, 0.0, 0.3, 12.0):
        expected = special.ndtr(t) if math.isinf(df) else special.stdtr(df, t)
        assert t_cdf(df, t) == pytest.approx(float(expected), rel=1e-8, abs=1e-15)


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99, 0.999, 0.01])
@pytest.mark.parametrize("n", [1, 2, 59, 299, 5000, 1_000_000, 20_000_000])
def test_the_binomial_distribution(n, q):
    first, at_most = binomial_cdf(n, q)
    hits = np.arange(first, first + at_most.size)
    exact = special.betainc(np.maximum(n - hits, 1e-300), hits + 1.0, 1 - q)
    exact[hits == n] = 1.0
    assert np.abs(at_most - exact).max() < 1e-11
    assert at_most[0] < 1e-11 or first == 0


def test_the_normal_distribution():
    assert normal_cdf(0) == 0.5
    assert normal_cdf(-8) == pytest.approx(float(special.ndtr(-8)), rel=1e-12)
