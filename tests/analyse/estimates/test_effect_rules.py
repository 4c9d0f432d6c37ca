"""Effects: each against its textbook formula, written out plainly here, or worked by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from cotenant.analyse.estimates.effects import equivalence, holm, independent_effect


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
