"""Distributions at their edges: each against its textbook formula, written out plainly here, or worked by hand."""

import math

import pytest
from scipy import stats

from cotenant.analyse.estimates import distributions
from cotenant.analyse.estimates.distributions import student_t


@pytest.mark.parametrize(
    ("df", "level", "t"), [(1, 0.95, 12.7062), (4, 0.95, 2.7764), (10, 0.99, 3.1693), (math.inf, 0.9, 1.6449)]
)
def test_two_sided_students_t(df, level, t):
    assert student_t(df, level) == pytest.approx(t, abs=1e-4)


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
