import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import gmean

from cotenant.analyse.sharing import summarise as metrics

progress = st.lists(st.floats(0.01, 2), min_size=1, max_size=10)


def test_two_tenants_that_take_turns():
    half = metrics.normalised_progress([10, 20], [20, 40])
    assert half.tolist() == [0.5, 0.5]
    assert metrics.slowdown([10, 20], [20, 40]).tolist() == [2, 2]
    assert metrics.stp(half) == 1
    assert metrics.antt(half) == 2
    assert metrics.harmonic_speedup(half) == 0.5
    assert metrics.fairness(half) == 1
    assert metrics.jain(half) == 1


def test_one_victim():
    assert metrics.stp([1.0, 0.25]) == 1.25
    assert metrics.antt([1.0, 0.25]) == 2.5
    assert metrics.fairness([1.0, 0.25]) == 0.25
    assert metrics.jain([1.0, 0.0]) == 0.5


@given(progress)
def test_bounds_hold(tenants):
    n = len(tenants)
    assert 1 / n - 1e-9 <= metrics.jain(tenants) <= 1 + 1e-9
    assert 0 < metrics.fairness(tenants) <= 1
    assert min(tenants) - 1e-9 <= metrics.harmonic_speedup(tenants) <= metrics.stp(tenants) / n + 1e-9


@given(progress, st.floats(0.1, 10))
def test_fairness_does_not_depend_on_the_common_pace(tenants, pace):
    faster = [value * pace for value in tenants]
    assert metrics.fairness(faster) == pytest.approx(metrics.fairness(tenants))
    assert metrics.jain(faster) == pytest.approx(metrics.jain(tenants))


def test_blocks_are_the_replicates_and_bounds_cut_the_interval():
    rng = np.random.default_rng(0)
    blocks = [0.6 + rng.normal(0, 0.01, 2) for _ in range(5)]
    assert metrics.over_blocks("stp", blocks).n == 5
    assert metrics.over_blocks("stp", blocks).est == pytest.approx(gmean([b.sum() for b in blocks]))
    few = metrics.over_blocks("stp", [[0.1, 0.2], [2.0, 3.0]])
    assert 0 < few.lo < few.est < few.hi  # work is never negative, however few the blocks
    assert metrics.over_blocks("fairness", blocks).hi <= 1


def test_each_metric_covers_its_truth():
    rng = np.random.default_rng(1)
    truth = np.array([0.9, 0.5, 0.7])
    hits = dict.fromkeys(metrics.METRICS, 0)
    for _ in range(400):
        blocks = truth * np.exp(rng.normal(0, 0.01, (6, 3)))
        for name, (value_of, _) in metrics.METRICS.items():
            estimate = metrics.over_blocks(name, list(blocks))
            hits[name] += estimate.lo <= value_of(truth) <= estimate.hi
    assert {name: 0.92 <= count / 400 <= 0.98 for name, count in hits.items()} == dict.fromkeys(hits, True)


@pytest.mark.parametrize("count", [3, 40])
def test_no_interval_of_fairness_exceeds_its_bound(count):
    rng = np.random.default_rng(3)
    nearly_fair = [0.5 * np.exp(rng.normal(0, 0.004, 2)) for _ in range(count)]
    skewed = [*nearly_fair, np.array([0.5, 0.2])]
    for name, (_, most) in metrics.METRICS.items():
        found = metrics.over_blocks(name, skewed)
        if most is not None:
            assert found.hi <= most, name
            assert found.lo >= 0, name
    assert metrics.over_blocks("jain", skewed).hi == 1.0, "clipped: the spread alone reaches beyond"
