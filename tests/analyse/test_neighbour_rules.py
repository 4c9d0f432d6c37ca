"""What neighbours do to each other: levels, comparable intervals and verdicts, on constructed traffic."""

import math

import numpy as np
import pytest
from scipy import stats

from cotenant.analyse.estimates.intervals import anytime_factor
from cotenant.analyse.neighbours import influence, regression
from cotenant.analyse.neighbours.influence import TenantSeries, factor_of, influences
from cotenant.analyse.neighbours.regression import Effect, Rows, levels_of
from cotenant.tenancy.interval import Estimate, Missing


def test_levels_are_shares_of_the_usual_top():
    found = levels_of(np.array([0.0, 2.0, 2.1, 49.9, 50.0, 100.0, 100.0, 100.0, math.nan]))
    assert (found.light_from, found.busy_from) == (2.0, 50.0)
    assert found.at[:8].tolist() == [0, 0, 1, 1, 2, 2, 2, 2]
    assert math.isnan(found.at[8])
    assert [found.seen(level) for level in ("idle", "light", "busy")] == [2, 2, 4]
    idle = levels_of(np.array([0.0, 0.0]))
    assert (idle.busy_from, idle.at.tolist()) == (0.0, [0, 0])
    assert levels_of(np.array([246.9] * 5)).busy_from == 120.0


def series(name, *, n=600, rate=None, time=None, step_s=5.0, activity=None, **more):
    requests = np.full(n, 20.0) if rate is None else np.asarray(rate, float)
    units = requests
    each = np.full(n, 0.1) if time is None else np.asarray(time, float)
    return TenantSeries(
        name,
        step_s,
        requests,
        units,
        units * each,
        "latency",
        requests / step_s if activity is None else activity,
        "/s",
        **more,
    )


def switching(n=600, period=24):
    """Idle and busy in turns."""
    return 10.0 * ((np.arange(n) // (period // 2)) % 2)


def noisy(n=600, seed=0, spread=0.02):
    return np.exp(spread * np.random.default_rng(seed).normal(size=n))


def test_a_neighbour_that_slows_by_half_is_found_with_its_factor():
    load = switching()
    victim = series("a", time=0.1 * noisy() * np.where(load > 0, 1.5, 1.0), rate=20 + np.arange(600) % 3)
    found = influences([victim, series("b", activity=load)])
    on = next(each for each in found if each.tenant == "a")
    assert (on.neighbour, on.verdict, on.reference, on.busy_from, on.unit) == ("b", "slows", "idle", 5.0, "/s")
    assert on.busy.est == pytest.approx(1.5, rel=0.02)
    assert on.busy.lo < 1.5 < on.busy.hi
    assert on.raw == pytest.approx(1.5, rel=0.02)
    assert (on.minutes, on.more_minutes, on.experiment) == (50.0, None, None)
    assert isinstance(on.light, Missing)
    assert len(found) == 2
    often = next(each for each in influences([victim, series("b", activity=load)], looks="often") if each.tenant == "a")
    assert often.busy.hi - often.busy.lo > 1.3 * (on.busy.hi - on.busy.lo)


def test_a_neighbour_without_effect_hardly_slows():
    load = switching()
    found = influences([series("a", time=0.1 * noisy(), rate=20 + np.arange(600) % 3), series("b", activity=load)])
    assert next(each for each in found if each.tenant == "a").verdict == "hardly"


def test_a_tenant_that_was_slow_before_its_neighbour_was_busy_has_another_reason():
    load = switching()
    soon = np.concatenate([load[3:] > 0, np.zeros(3, bool)]) | (load > 0)
    victim = series("a", time=0.1 * noisy() * np.where(soon, 1.5, 1.0), rate=20 + np.arange(600) % 3)
    found = next(each for each in influences([victim, series("b", activity=load)]) if each.tenant == "a")
    assert found.verdict == "can't tell"
    assert "already 1." in found.busy.reason


@pytest.mark.parametrize(
    ("activity", "why"),
    [
        (np.full(600, 10.0), "both busy all the time"),
        (np.zeros(600), "b was idle all the time"),
        (np.full(600, math.nan), "nothing was read of a and b"),
        (np.tile([0.0, 10.0], 300), "rarely stayed at one level for two intervals of 5 s"),
    ],
)
def test_why_nothing_can_be_said(activity, why):
    found = next(
        each
        for each in influences([series("a", time=0.1 * noisy()), series("b", activity=activity)])
        if each.tenant == "a"
    )
    assert found.verdict == "can't tell"
    assert why in found.busy.reason
    assert found.more_minutes is None
    assert found.experiment[0] == 6


def test_a_level_counts_from_the_fewest_settled_intervals():
    def compared(length):
        activity = np.zeros(300)
        activity[100 : 100 + length] = 10.0
        seen = (series("chat", n=300), series("train", n=300, activity=activity))
        levels = [levels_of(each.activity) for each in seen]
        settled = int((influence._settled(levels[1].at) & (levels[1].at == 2)).sum())
        return settled, influence._pair(seen, levels, 0, 1)[0] is not None

    by_settled = dict(compared(length) for length in range(1, 40))
    assert {influence.FEWEST - 1, influence.FEWEST} <= by_settled.keys()
    assert [settled for settled, enough in by_settled.items() if enough] == [
        settled for settled in by_settled if settled >= influence.FEWEST
    ]


def test_neighbours_that_are_always_busy_together_cant_be_told_apart():
    load = switching()
    found = influences(
        [
            series("a", time=0.1 * noisy(), rate=20 + np.arange(600) % 3),
            series("b", activity=load),
            series("c", activity=load),
        ]
    )
    reasons = [each.busy.reason for each in found if each.tenant == "a"]
    assert reasons == ["b and c were always busy at the same times", "c and b were always busy at the same times"]


def test_traffic_that_comes_and_goes_together_cant_be_compared():
    load = switching()
    victim = series("a", rate=np.where(load > 0, 200, 20), time=0.1 * noisy())
    found = next(each for each in influences([victim, series("b", activity=load)]) if each.tenant == "a")
    assert "comes and goes together" in found.busy.reason


@pytest.mark.parametrize(
    ("effect", "found"),
    [(Effect(0.4, 0.1, 4), None), (Effect(0.4, math.nan, 9), None), (Effect(0.4, 0.1, 5), 4)],
)
def test_a_factor_needs_five_blocks_and_an_error(effect, found):
    result = factor_of(effect, "once")
    if found is None:
        assert isinstance(result, Missing)
        assert result.n == effect.blocks
        return
    half = stats.t.ppf(0.975, found) * 0.1
    assert (result.est, result.lo, result.hi) == pytest.approx(
        (math.exp(0.4), math.exp(0.4 - half), math.exp(0.4 + half))
    )
    wide = factor_of(effect, "often")
    assert math.log(wide.hi) - 0.4 == pytest.approx(half * anytime_factor(5) / 1.96)


@pytest.mark.parametrize(
    ("lo", "est", "hi", "verdict", "more"),
    [
        (1.01, 1.2, 1.4, "slows", None),
        (1.0, 1.05, 1.09, "hardly", None),
        (0.9, 1.0, 1.1, "can't tell", 60 * ((math.log(1.1 / 0.9) / 2 / math.log(1.1)) ** 2 - 1)),
        (0.8, 1.2, 1.8, "can't tell", 60 * ((math.log(1.8 / 0.8) / 2 / math.log(1.2)) ** 2 - 1)),
        (0.995, 1.1, 1.2, "can't tell", 6.0),
    ],
)
def test_verdicts_and_how_much_longer(lo, est, hi, verdict, more):
    said, minutes = influence._verdict(Estimate(est, lo, hi, 9, ""), 60.0, None)
    assert said == verdict
    if more is not None:
        assert minutes == pytest.approx(max(more, 6.0))
    else:
        assert minutes is None


@pytest.mark.parametrize(("blocks", "more"), [(0, None), (1, 240.0), (4, 15.0), (5, None)])
def test_few_blocks_need_more_watching(blocks, more):
    assert influence._verdict(Missing(""), 60.0, Effect(0.1, 0.1, blocks)) == ("can't tell", more)
    assert influence._verdict(Missing(""), 60.0, None) == ("can't tell", None)


def test_an_experiment_is_long_enough_for_ten_percent():
    random = np.random.default_rng(2)
    tenant = series("a", time=0.1 * np.exp(0.3 * random.normal(size=600)))
    turns, seconds = influence._experiment(tenant)
    scatter = np.diff(np.log(tenant.mean_s)) / math.sqrt(2)
    intervals = 2 / 6 * (stats.t.ppf(0.975, 5) * scatter.std() / 0.1) ** 2
    assert (turns, seconds) == (6, 5.0 * (math.ceil(intervals) + 1))
    assert influence._experiment(series("a")) == (6, 15.0)
    assert influence._experiment(series("a", n=11)) is None
    assert influence._experiment(series("a", n=12)) is not None


def test_own_load_and_the_intervals_that_both_levels_met():
    rate = np.array([10.0, 20, 40, 20, 10, 80])
    tenant = series("a", n=6, rate=rate, time=np.full(6, 0.1), lengths=(np.array([1, 2, 4, math.nan, 2, 2.0]),))
    low, high = np.array([1, 1, 1, 0, 0, 0], bool), np.array([0, 0, 0, 1, 1, 1], bool)
    columns, narrow = influence.own_load(tenant, low, high)
    load = np.log(rate / 20)
    assert columns[:, 0] == pytest.approx(load)
    assert columns[:, 1] == pytest.approx(load**2)
    assert columns[:, 2] == pytest.approx(np.append(load[:1], load[:-1]))
    assert columns[:, 3] == pytest.approx(np.append(load[:1], load[:-1]) ** 2)
    assert columns[:, 4] == pytest.approx(np.log(np.array([1, 2, 4, 2, 2, 2]) / 2))
    assert narrow.tolist() == [True, True, True, True, True, False]
    assert influence._settled(np.array([0, 0, 1, 1])).tolist() == [False, True, False, True]
    assert influence._shifted(np.array([True, False, True]), 1).tolist() == [False, True, False]


def test_mean_times_of_tenants():
    tenant = TenantSeries("a", 1.0, np.ones(2), np.array([2.0, 0.0]), np.array([1.0, 0.0]), "latency", np.ones(2), "/s")
    assert tenant.timed
    assert tenant.mean_s[0] == 0.5
    assert math.isnan(tenant.mean_s[1])
    silent = TenantSeries("a", 1.0, np.ones(2), np.empty(0), np.empty(0), "latency", np.ones(2), "/s")
    assert not silent.timed
    assert np.isnan(silent.mean_s).all()
    assert influences([silent, silent]) == []


def rows(blocks=8, each=20, *, factor=1.3, drift=0.2, noise=0.01, seed=1):
    random = np.random.default_rng(seed)
    block = np.repeat(np.arange(float(blocks)), each)
    busy = np.tile([0.0, 1.0], blocks * each // 2)
    mean = 0.1 * np.exp(drift * block) * factor**busy * np.exp(noise * random.normal(size=block.size))
    return Rows(mean, np.full(block.size, 50.0), block, np.zeros((block.size, 1)), busy[:, None], (1,))


def test_the_effect_is_free_of_drift_between_blocks_and_has_a_jackknifed_error():
    data = rows()
    (found,) = regression.effects(data)
    assert math.exp(found.log) == pytest.approx(1.3, rel=0.005)
    assert found.blocks == 8
    weights = np.ones(160)
    left = [regression._fit(data.where(data.block != b), weights[data.block != b])[0] for b in range(8)]
    assert found.error == pytest.approx(math.sqrt(7 / 8 * sum((x - np.mean(left)) ** 2 for x in left)), rel=0.1)
    levels = regression.block_levels(data)
    assert np.diff(list(levels.values())) == pytest.approx(np.full(7, 0.2), abs=0.02)
    assert regression.residuals(data).std() == pytest.approx(0.01, rel=0.3)
    assert data.informative(0) == set(range(8))
    one_sided = Rows(data.mean, data.units, data.block, data.own, data.levels * (data.block < 3)[:, None], (1,))
    assert one_sided.informative(0) == {0, 1, 2}
    two = Rows(data.mean, data.units, data.block, data.own, np.hstack([data.levels, 1 - data.levels]), (1, 1))
    assert two.informative(0) == set(), "never at the reference"
