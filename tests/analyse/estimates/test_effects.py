import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cotenant.analyse.estimates.effects import RatioEffect, equivalence, independent_effect
from cotenant.analyse.estimates.intervals import ratio_interval

spread_logs = st.lists(st.floats(-1, 1), min_size=3, max_size=30).filter(lambda data: np.std(data) > 1e-3)
positive = st.lists(st.floats(0.5, 50), min_size=3, max_size=20).filter(lambda data: np.std(np.log(data)) > 1e-3)


def paired(logs):
    """An effect whose replicates are these logarithms of ratios."""
    return RatioEffect(
        ratio=ratio_interval(logs),
        log_ratio=float(np.mean(logs)),
        standard_error=float(stats.sem(logs)),
        df=len(logs) - 1,
        standardised=None,
        p_value=float(stats.ttest_1samp(logs, 0).pvalue) if np.ptp(logs) else float(logs[0] == 0),
    )


@given(positive, positive)
def test_the_independent_test_is_welchs(a, b):
    effect = independent_effect(a, b)
    expected = stats.ttest_ind(np.log(a), np.log(b), equal_var=False)
    assert effect.p_value == pytest.approx(expected.pvalue, abs=1e-9)
    interval = expected.confidence_interval()
    assert effect.ratio.lo == pytest.approx(np.exp(interval.low))
    assert effect.ratio.hi == pytest.approx(np.exp(interval.high))
    assert effect.ratio.est == pytest.approx(stats.gmean(a) / stats.gmean(b))


@given(positive, positive, st.floats(0.1, 10))
def test_the_unit_of_time_does_not_matter(a, b, unit):
    scaled = independent_effect(np.array(a) * unit, np.array(b) * unit)
    assert scaled.ratio.est == pytest.approx(independent_effect(a, b).ratio.est)
    assert scaled.p_value == pytest.approx(independent_effect(a, b).p_value, abs=1e-6)


def test_the_standardised_effect_is_in_units_of_the_blocks_spread():
    logs = 0.05 * np.random.default_rng(0).normal(size=(2, 400))
    assert independent_effect(np.exp(0.1 + logs[0]), np.exp(logs[1])).standardised == pytest.approx(2, rel=0.1)


def test_without_any_spread_the_answer_is_certain():
    assert independent_effect([2.0, 2.0], [2.0, 2.0]).p_value == 1
    assert independent_effect([2.0, 2.0], [1.0, 1.0]).p_value == 0


def test_one_block_is_not_enough_for_an_effect():
    with pytest.raises(ValueError, match="two replicates"):
        independent_effect([1.0], [1.0, 2.0])


@given(spread_logs, st.floats(0.001, 1))
def test_equivalence_is_two_one_sided_tests(logs, margin):
    found = equivalence(paired(logs), margin)
    bound = np.log1p(margin)
    above = stats.ttest_1samp(logs, -bound, alternative="greater").pvalue
    below = stats.ttest_1samp(logs, bound, alternative="less").pvalue
    assert found.p_value == pytest.approx(max(above, below), abs=1e-9)


@given(spread_logs, st.floats(0.001, 1))
def test_equivalence_holds_just_from_the_margin_it_names(logs, margin):
    effect = paired(logs)
    within = equivalence(effect, margin).within
    assert equivalence(effect, within * 1.001).holds()
    assert not equivalence(effect, within * 0.999).holds()


def test_equivalence_is_rarely_claimed_at_the_margin():
    rng = np.random.default_rng(0)
    claimed = [equivalence(paired(np.log(1.02) + rng.normal(0, 0.01, 6)), 0.02).holds() for _ in range(1000)]
    assert np.mean(claimed) <= 0.07


def test_true_equivalence_is_found():
    rng = np.random.default_rng(0)
    claimed = [equivalence(paired(rng.normal(0, 0.01, 10)), 0.02).holds() for _ in range(300)]
    assert np.mean(claimed) >= 0.95


def test_exact_equivalence_and_an_invalid_margin():
    assert equivalence(paired([0.0, 0.0]), 0.01).holds()
    assert not equivalence(paired([0.5, 0.5]), 0.01).holds()
    with pytest.raises(ValueError, match="above 0"):
        equivalence(paired([0.0, 0.1]), 0)
