from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cotenant.analyse.sharing.slo import LATE, ObjectiveRequests, attainment, binomial_interval, queries_needed
from tests.analyse.explanation.scenes_of_tenants import Scene, Tenant


@pytest.mark.parametrize(
    ("quantile", "needed"),
    [(0.9, (44, 64, 197)), (0.95, (90, 130, 398)), (0.99, (459, 662, 2010)), (0.999, (4603, 6636, 20140))],
)
def test_early_stopping_needs_what_mlperf_needs(quantile, needed):
    assert tuple(queries_needed(quantile, late) for late in (0, 1, 10)) == needed


@given(st.sampled_from([0.5, 0.9, 0.95, 0.99]), st.integers(0, 30))
def test_early_stopping_is_the_binomial_test(quantile, late):
    """A tenant that just misses its objective would show that few late requests in at most 1 % of runs."""
    n = queries_needed(quantile, late)
    assert stats.binom.cdf(late, n, 1 - quantile) <= 0.01 + 1e-9
    assert stats.binom.cdf(late, n - 1, 1 - quantile) > 0.01 - 1e-9


@settings(max_examples=50)
@given(st.integers(0, 200), st.integers(1, 200))
def test_the_share_is_clopper_and_pearsons(hits, n):
    hits = min(hits, n)
    expected = stats.binomtest(hits, n).proportion_ci(method="exact")
    assert binomial_interval(hits, n) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_plainly_met_plainly_missed_and_undecided():
    assert attainment([500, 500], [500, 500], 0.99).answer == "met"
    assert attainment([400, 400], [500, 500], 0.9).answer == "missed"
    near = attainment([180], [200], 0.9)
    assert near.answer == "undecided"
    assert near.needs_n is None, "a share right at the objective can't be decided by any number"


def test_undecided_says_how_many_requests_would_decide():
    found = attainment([94], [100], 0.9)
    assert found.answer == "undecided"
    again = attainment([round(0.94 * found.needs_n)], [found.needs_n], 0.9)
    assert 100 < found.needs_n < 1000
    assert again.answer == "met"


def test_trials_that_disagree_widen_the_interval():
    alike, apart = attainment([90] * 6, [100] * 6, 0.9), attainment([100, 80] * 3, [100] * 6, 0.9)
    assert alike.share.est == apart.share.est == 0.9
    assert apart.share.hi - apart.share.lo > 1.5 * (alike.share.hi - alike.share.lo)


def test_false_passes_stay_below_one_per_cent():
    rng = np.random.default_rng(0)
    passes = [attainment(rng.binomial(400, 0.9, 4), [400] * 4, 0.9).answer == "met" for _ in range(1000)]
    assert np.mean(passes) <= 0.01


def test_attainment_without_requests_is_refused():
    with pytest.raises(ValueError, match="at least one request"):
        attainment([], [], 0.9)
    with pytest.raises(ValueError, match="between 0 and 1"):
        queries_needed(1.0, 0)


@pytest.mark.parametrize(
    ("in_time", "answer"), [(191, "missed"), (192, "missed"), (194, "undecided"), (196, "undecided")]
)
def test_an_objective_is_missed_with_99_percent_confidence_only(in_time, answer):
    one_sided = stats.binomtest(in_time, 200).proportion_ci(0.98, method="exact").high
    assert (one_sided < 0.99) == (answer == "missed"), "what the exact test says"
    assert attainment([in_time], [200], 0.99).answer == answer


def test_part_of_a_late_request_counts_as_a_late_request():
    one_trial_is_late = attainment([148, 150, 150, 150, 150, 150], [150] * 6, 0.99)
    assert one_trial_is_late.answer == "undecided"
    once = attainment([149, 150, 150, 150, 150, 150], [150] * 6, 0.99)
    assert "design effect 1.7" in once.share.method, "so it stands for 0.58 of an independent late request"
    assert queries_needed(0.99, 0) < 900 / 1.7221, "rounded down, none was late and the objective met"
    assert once.answer == "undecided"


def observed(**more):
    [item] = Scene(Tenant("a", slo_ms=20.0), blocks=1, noise=0.0).alone().evidence
    return replace(item.seen, **more)


@pytest.mark.parametrize(("quantile", "counted"), [(None, 0.99), (0.9, 0.9), (0.999, 0.999)])
def test_a_trial_with_too_few_requests_for_its_quantile_says_how_many_times_as_many(quantile, counted):
    seen = observed(slo_quantile=quantile, n=8, unfinished=2, slo_met=8)
    requests = ObjectiveRequests()
    requests.add([seen])
    [(cell, times)] = requests.lacking().items()
    assert cell == (seen.mix, seen.sharing, seen.load)
    assert times == pytest.approx(queries_needed(counted, LATE) / 10), "those that never ended are late, not absent"


def test_enough_requests_lack_nothing_and_trials_without_an_objective_are_not_counted():
    enough = queries_needed(0.9, 0)
    requests = ObjectiveRequests()
    requests.add([observed(slo_met=None), observed(n=10 * enough, slo_met=10 * enough)])
    assert requests.lacking() == {}
    requests.add([observed(mix="other", n=1, slo_met=1)])
    assert [mix for mix, *_ in requests.lacking()] == ["other"]
