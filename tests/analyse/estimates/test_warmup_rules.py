"""Steadiness of series and changes of their level, by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from cotenant.analyse.estimates import warmup


def series(*levels, each=20, noise=0.002, seed=0):
    random = np.random.default_rng(seed)
    return np.concatenate([level * (1 + noise * random.normal(size=each)) for level in levels])


@pytest.mark.parametrize(
    ("levels", "kind", "changes"),
    [
        ((10, 10, 10), "flat", 0),
        ((13, 10, 10), "warm-up", 1),
        ((10, 13, 13), "slowdown", 1),
        ((10, 13, 10), "no steady state", 2),
        ((10, 10.4, 10.4), "flat", 0),
        ((14, 12, 10), "warm-up", 2),
    ],
)
def test_classes_of_series(levels, kind, changes):
    found = warmup.steadiness(series(*levels))
    assert (found.kind, len(found.changes)) == (kind, changes)
    assert len(found.levels) == changes + 1
    if changes == 1:
        assert found.changes[0] == pytest.approx(20 if levels[0] != levels[1] else 40, abs=1)
        assert found.levels == pytest.approx((levels[0], levels[-1]), rel=0.01)
    assert warmup.classify(series(*levels)) == kind


def test_the_last_quarter_must_be_at_one_level_and_short_series_tell_nothing():
    late = np.concatenate([series(10, each=80), series(14, each=19)])
    assert warmup.classify(late) == "no steady state"
    assert warmup.classify(np.concatenate([series(10, each=60), series(14, each=40)])) == "slowdown"
    few = warmup.steadiness([1.0] * 19)
    assert (few.kind, few.levels, few.note) == ("flat", (1.0,), "only 19 points: too few to see a change")
    assert warmup.steadiness([1.0] * 20).note is None
    assert warmup.steadiness([]).levels == ()
    assert warmup.steadiness(series(13, 10, each=100), most_points=19).note is not None


def best_cut(points):
    """One cut at most, by trying all, with the cost of each stretch as the docstring says."""
    n = len(points)
    floor = (1e-3 * abs(np.median(points))) ** 2

    def cost(part):
        return len(part) * math.log(max(np.var(part), floor))

    cuts = {(): cost(points)} | {
        (at,): cost(points[:at]) + cost(points[at:]) + 15 * math.log(n) for at in range(5, n - 4)
    }
    return list(min(cuts, key=cuts.get))


@pytest.mark.parametrize("seed", range(8))
def test_one_change_of_level_is_where_the_cost_is_least(seed):
    random = np.random.default_rng(seed)
    at, jump = int(random.integers(6, 30)), float(random.choice([0.0, 0.3, 2.0]))
    points = 10 + random.normal(size=36) * 0.3 + jump * (np.arange(36) >= at)
    assert warmup._change_points(points) in (best_cut(points), *([] if jump else [[]]))


def test_outliers_are_pulled_in():
    raw = np.array([10.0] * 9 + [99.0])
    assert warmup._without_extremes(raw).max() == 15.0
    wide = np.array([0.0, 1, 2, 3, 4, 5, 6, 7, 8, 99])
    assert warmup._without_extremes(wide).max() == pytest.approx(4.5 + 6 * 1.4826 * 2.5)
    points = np.resize([1.0, 2.0, 3.0], 40)
    points[20] = 50.0
    spread = warmup._winsorised(points)
    assert spread[20] < 8
    assert spread[:15].tolist() == points[:15].tolist()


def test_steps_by_all_partitions():
    data = np.array([0.0, 0.1, 0.0, 5.0, 5.1, 5.0, 5.0])
    (step,) = warmup.find_steps(data, 0.1, 10.0)
    assert (step.at, step.before, step.after) == (3, pytest.approx(0.1 / 3), pytest.approx(5.025))
    assert step.error == pytest.approx(0.1 * math.sqrt(1 / 3 + 1 / 4))
    assert warmup.find_steps(data, 0.1, 1e9) == []
    assert warmup.find_steps(data, 0.1, 10.0, least=5.1) == []
    assert warmup.find_steps(data[:1], 0.1, 1.0) == []
    assert [step.at for step in warmup.find_steps(np.array([0.0, 9.0]), 0.1, 10.0)] == [1]
    assert warmup.penalty(11, 2, math.inf) == pytest.approx(stats.norm.ppf(1 - 0.05 / 2 / 20) ** 2)
    assert warmup.penalty(1, 1, math.inf) == pytest.approx(stats.norm.ppf(0.975) ** 2)
    assert warmup.noise_of([np.array([0, 2, 0, 2.0])]) == pytest.approx(1.4826 * 2 / math.sqrt(2))
    assert warmup.noise_of([]) == 0.0
    assert warmup.noise_of([np.array([1.0])]) == 0.0
