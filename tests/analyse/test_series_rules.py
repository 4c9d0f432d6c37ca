"""Changes between runs, counters, latency curves, shares of power and orders of GPUs: by hand or by definition."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import special, stats

from cotenant.analyse.comparison import changes, pair
from cotenant.analyse.comparison.changes import between_variance, change, judge, widened
from cotenant.analyse.comparison.outcomes import ComparisonOutcome, withheld
from cotenant.analyse.comparison.pair import Quality
from cotenant.analyse.decision import option
from cotenant.analyse.device_use import (
    MixReading,
    SensorSeries,
    _energy,
    _gauge,
    _inside,
    _mean,
    _power_sensor,
    _throttled,
)
from cotenant.analyse.dvfs import JobReading, sentence, sweeps
from cotenant.analyse.energy import PowerSensor
from cotenant.analyse.findings import RateLatency, knee
from cotenant.analyse.neighbours.totals import Totals, summed
from cotenant.analyse.sharing.capacity import LatencyCurve, curve_points
from cotenant.analyse.sharing.evidence import arrivals_and_rate, cores_of, peaks_of
from cotenant.analyse.variability import summary
from cotenant.analyse.variability.attribution import attribute
from cotenant.tenancy.interval import Missing

# --- changes between runs


def blocks(*logs):
    return dict(enumerate(logs))


def ratio(shift, spread=0.01, n=8):
    wave = spread * np.resize([1, -1], n)
    return change(blocks(*(shift + wave)), blocks(*wave))


@pytest.mark.parametrize(
    ("shift", "verdict"), [(0.2, "slower"), (-0.2, "faster"), (0.0, "same"), (math.log(1.03), "ambiguous")]
)
def test_verdicts_are_shown_beyond_or_within_the_margin(shift, verdict):
    (found,) = judge([ratio(shift)], 0.03)
    assert found.verdict == verdict
    assert (found.blocks_missing is None) is (verdict != "ambiguous" or abs(shift - math.log(1.03)) < 1e-9)


def test_a_change_is_one_sided_and_corrected_for_the_number_of_rows():
    effect = ratio(0.045)
    p = stats.t.cdf(-(effect.log_ratio - math.log(1.03)) / effect.standard_error, effect.df)
    (single,) = judge([effect], 0.03)
    assert (single.verdict, single.p_value) == ("slower", pytest.approx(p))
    many = judge([effect] * 4, 0.03, level=1.0)
    assert [each.p_value for each in many] == pytest.approx([4 * p] * 4)
    assert change(blocks(1.0), blocks(1.0, 2.0)) is None
    exact = change(blocks(0.1, 0.1), blocks(0.0, 0.0))
    assert [judge([exact], margin)[0].verdict for margin in (0.05, 0.2)] == ["slower", "same"]


def test_blocks_that_would_decide():
    effect = ratio(0.02, spread=0.05)
    (found,) = judge([effect], 0.03)
    n, total = 8, 8 + found.blocks_missing
    room = math.log(1.03) - 0.02

    def enough(blocks_each):
        return stats.t.ppf(0.95, 2 * blocks_each - 2) * effect.standard_error * math.sqrt(n / blocks_each) <= room

    assert found.verdict == "ambiguous"
    assert enough(total)
    assert not enough(math.floor(total / 1.1) - 1)


def test_variance_between_runs_widens():
    effect = ratio(0.1)
    assert widened(effect, 0.0) is effect
    found = widened(effect, 0.0004)
    own = effect.standard_error**2
    df = (own + 0.0004) ** 2 / (own**2 / effect.df + 0.0004**2 / 2)
    half = stats.t.ppf(0.975, df) * math.sqrt(own + 0.0004)
    assert (found.df, found.standard_error) == pytest.approx((df, math.sqrt(own + 0.0004)))
    assert (found.ratio.lo, found.ratio.hi) == pytest.approx((math.exp(0.1 - half), math.exp(0.1 + half)))


def test_drift_is_the_difference_of_halves_beyond_scatter():
    rows = [blocks(0.0, 0.0, 0.2, 0.2)]
    assert changes._drift(rows) == pytest.approx(0.1**2 - (0.04 / 3 / 2) / 4)
    assert changes._drift([blocks(0.0, 0.1, 0.2)]) == 0.0
    assert changes._drift([blocks(0.1, -0.1, 0.1, -0.1)]) == 0.0
    assert changes._drift([blocks(0.0, 0.0, 0.2, 0.2), blocks(5.0, 5.0, 5.2, 5.2)]) == pytest.approx(
        changes._drift(rows)
    )

    def evidence(*shares):
        return [SimpleNamespace(foreign_share=foreign, steal_share=steal) for foreign, steal in shares]

    assert changes._taken(evidence((0.1, None), (0.2, 0.1))) == pytest.approx(0.2)
    assert changes._taken(evidence((0.9, 0.9))) == 0.95
    assert changes._taken([]) == 0.0
    series = [[SimpleNamespace(time=rows[0])], [SimpleNamespace(time=rows[0])]]
    found = between_variance(series, (evidence((0.0, 0.0)), evidence((0.5, 0.0))))
    assert found == pytest.approx(2 * changes._drift(rows) + math.log(2) ** 2)


@pytest.mark.parametrize(("doubtful", "mostly"), [(4, True), (5, False), (6, False)])
def test_a_run_is_mostly_valid_if_more_than_half_is(doubtful, mostly):
    assert Quality(10, doubtful, ()).mostly_valid is mostly


def test_token_times_change_by_welch():
    old, new = {0: math.log(2e6), 1: math.log(2.2e6), 2: math.log(2.1e6)}, {0: math.log(4e6), 1: math.log(4.2e6)}
    found = pair._change("TTFT", old, new)
    test = stats.ttest_ind(list(new.values()), list(old.values()), equal_var=False)
    inside = test.confidence_interval()
    assert (found.ratio.lo, found.ratio.hi, found.ratio.n) == pytest.approx(
        (math.exp(inside.low), math.exp(inside.high), 2)
    )
    assert found.before_ms == pytest.approx(stats.gmean([2, 2.2, 2.1]))
    assert found.now_ms == pytest.approx(stats.gmean([4, 4.2]))
    empty = SimpleNamespace(ttft={0: 1.0}, tpot={})
    assert pair.token_changes(empty, empty) == ()
    assert [
        each.metric
        for each in pair.token_changes(SimpleNamespace(ttft=old, tpot={}), SimpleNamespace(ttft=new, tpot={}))
    ] == ["TTFT"]


def test_slower_by_the_clock_is_no_regression_and_withheld_says_nothing():
    nothing = Missing("")
    slower = ComparisonOutcome("slower", "its own change", nothing, nothing, nothing, nothing)
    assert slower.regression
    assert not ComparisonOutcome("slower", "the clock", nothing, nothing, nothing, nothing).regression
    assert not ComparisonOutcome("faster", "its own change", nothing, nothing, nothing, nothing).regression
    assert (withheld(slower).verdict, withheld(slower).because) == ("ambiguous", "not valid")


# --- counters


def test_counters_grow_evenly_between_readings():
    totals = Totals.of([0, 10, 20, 30], [0, 10, 30, 30])
    assert totals.within(np.array([0.0, 5, 15, 30])) == pytest.approx([5, 15, 10])
    assert np.isnan(totals.within(np.array([-1.0, 5, 31]))).tolist() == [True, True]
    assert Totals.of([3], [1]).within(np.array([0.0, 1, 2])).size == 2
    fell = Totals.of([0, 10, 20, 30], [5, 9, 2, 4])
    assert fell.restarts == 1
    assert np.isnan(fell.within(np.array([0.0, 10, 20, 30]))).tolist() == [False, True, False]
    assert np.isnan(fell.within(np.array([0.0, 11, 19, 30]))).tolist() == [True, True, True]
    unsorted = Totals.of([2, 1, 1, math.nan], [20, 10, 99, 5])
    assert (unsorted.t_s.tolist(), unsorted.value.tolist()) == ([1, 2], [10, 20])
    assert math.isnan(Totals.of([1], [1]).period_s)
    assert Totals.of([0, 1, 3], [0, 0, 0]).period_s == 1.5


def test_gaps_are_stretches_without_readings_and_counters_add_up():
    times = [0, 1, 2, 3, 60, 61]
    assert Totals.of(times, times).gaps() == [(3.0, 60.0)]
    assert Totals.of([0, 60], [0, 1]).gaps() == []
    one, other = Totals.of([0, 2], [0, 4]), Totals.of([0, 1, 2], [1, 2, 3])
    assert summed([one, other]).value.tolist() == [1, 7]
    assert summed([other, one]).value.tolist() == [1, 4, 7]
    assert summed([]) is None


# --- latency curves and loads


def test_a_curve_has_sixteen_points_per_decade_as_far_as_three_requests_lie_beyond():
    latencies = np.arange(1, 301, dtype=np.int64) * 1_000_000
    odds, times = curve_points(latencies, 0)
    assert odds[0] == 1.0
    assert odds[-1] == pytest.approx(100.0)
    assert 2.0 in odds
    assert len(odds) == 2 * 16 + 2
    for at, time in zip(odds, times, strict=True):
        assert time == max(1, math.ceil((1 - 1 / at) * 300 - 1e-9))
    cut, _ = curve_points(latencies[:270], 30)
    assert cut[-1] <= 10.0
    assert curve_points(latencies[:2], 0) == ((), ())
    assert curve_points(latencies[:3], 0)[0] == (1.0,)
    assert curve_points(latencies[:0], 9) == ((), ())
    curve = LatencyCurve(None, "a", "a", 300, 0, odds, times)
    assert curve.thinned(99) == list(zip(odds, times, strict=True))
    assert [curve.thinned(3)[place] for place in (0, -1)] == [(odds[0], times[0]), (odds[-1], times[-1])]
    assert len(curve.thinned(3)) == 3


@pytest.mark.parametrize(
    ("times", "found"), [([1, 1.5, 2.0], None), ([1, 1.5, 2.1], 2.0), ([1, 2.1, 9], 1.0), ([1, 9], None)]
)
def test_the_knee_is_before_the_median_doubles(times, found):
    levels = [RateLatency(float(rate), time) for rate, time in enumerate(times, 1)]
    result = knee(levels[::-1])
    assert (None if result is None else result.rate_rps) == found


@pytest.mark.parametrize(
    ("label", "found"),
    [
        ("poisson(20)", ("poisson", 20.0)),
        ("gamma(15%, 3)", ("gamma with cv 3", 0.15)),
        ("gamma(15%)", ("gamma", 0.15)),
        ("trace(f.csv, 2.5)", ("trace", 2.5)),
        ("closed(2)", None),
        ("poisson(each)", None),
    ],
)
def test_rates_in_labels_of_loads(label, found):
    assert arrivals_and_rate(label) == found


def test_peaks_of_a_device():
    assert [cores_of({"device_description": {"cores": cores}}) for cores in (4, [0, 1], [], 0, None)] == [4, 2, 1, 1, 1]
    given = {
        "device_description": {"cores": 8, "memory_bytes": 100, "caches_bytes": {"L1": 1, "L3": 9}},
        "roofline": {"flops_per_s": {"float32": 5}, "bytes_per_s": 7, "cores": 2, "measured_utc": "x"},
        "sensors": [{"name": "cache_misses"}],
    }
    found = peaks_of(given)
    assert (found.cores, found.memory_bytes, found.cache_bytes, found.counters, found.undisturbed) == (
        8,
        100,
        9,
        True,
        True,
    )
    assert (found.flops_per_s, found.bytes_per_s, found.rates_of) == ({"float32": 5.0}, 7.0, 2)
    bare = peaks_of({"roofline": {"flops_per_s": {}}})
    assert (bare.cores, bare.bytes_per_s, bare.counters) == (None, None, False)


# --- use of a device


def trial(window=10.0, served=5, **series):
    return SimpleNamespace(
        window_s=window,
        served=served,
        series={name: SensorSeries(np.array(t, float), np.array(v, float), "s") for name, (t, v) in series.items()},
    )


def test_gauges_are_means_within_the_window():
    found = _gauge(trial(power_w=([-1, 0, 5, 10, 11], [99, 1, 2, 3, 99])), "power_w")
    assert (found.value, found.trials) == (2.0, 1)
    assert _gauge(trial(), "power_w") is None
    assert _inside(SensorSeries(np.array([-2.0, -1.0]), np.array([4.0, 5.0]), ""), 1.0).tolist() == [5.0]
    assert _inside(SensorSeries(np.empty(0), np.empty(0), ""), 1.0) is None
    assert _mean([None]) is None
    mean = _mean([MixReading(1.0, 1, "a", 0.2), MixReading(3.0, 1, "b", 0.4), None])
    assert (mean.value, mean.trials, mean.source, mean.uncertainty) == (2.0, 2, "a, b", pytest.approx(0.3))


def test_throttling_is_the_longest_reason_or_the_share_of_samples():
    counted = _throttled(trial(throttled_heat=([0, 10], [0, 2]), throttled_power=([0, 10], [1, 4])))
    assert counted.value == pytest.approx(0.3)
    assert _throttled(trial(throttled_heat=([0, 10], [0, 99]))).value == 1.0
    assert _throttled(trial(throttled_heat=([0, 10], [5, 0]))).value == 0.0
    sampled = _throttled(trial(event_reasons=([1, 2, 3, 4], [0x4, 0x1, 0x8, 0x2])))
    assert (sampled.value, sampled.source) == (0.5, "s, sampled")
    assert _throttled(trial()) is None


def test_energy_per_request_prefers_the_counter():
    sensor = PowerSensor("instant", 0.1, 0.1)
    t = np.arange(0, 10.5, 0.5)
    found, why = _energy(trial(energy_j=(t, 20 * t), power_w=(t, 0 * t + 99)), sensor)
    assert (found.value, why) == (pytest.approx(40.0), None)
    assert _energy(trial(power_w=(t, 0 * t + 10)), sensor)[0].value == pytest.approx(20.0)
    for case, device, reason in (
        (trial(), None, "unknown"),
        (trial(served=0), sensor, "no request"),
        (trial(), sensor, "neither"),
        (trial(energy_j=([0], [1])), sensor, "less than twice"),
    ):
        number, why = _energy(case, device)
        assert number is None
        assert reason in why
    assert (
        _power_sensor(
            {"sensors": [{"name": "power_w", "period_s": 0.2}, {"name": "energy_j", "period_s": 0.5}]}
        ).update_s
        == 0.5
    )
    assert (
        _power_sensor(
            {"device_description": {"power_sensor": {"counter": "usage", "update_s": 1, "window_s": 2}}}
        ).window_s
        == 2
    )
    assert _power_sensor({}) is None


def job(clock, power, time, limit=None, device="a"):
    return JobReading("r", "j", device, clock, limit, clock or 1000.0, power, time)


def test_a_sweep_finds_the_clock_with_the_least_energy():
    (found,) = sweeps(
        [
            job(None, 300, 10.0),
            job(1400, 250, 10.5),
            job(1000, 150, 12.0),
            job(600, 120, 20.0),
            job(1000, 150, 12.0, device="b"),
        ]
    )
    assert (found.best.value, found.devices, len(found.steps)) == (1000, 2, 4)
    assert [step.value for step in found.steps] == [None, 1400, 1000, 600]
    assert found.best.energy_j == pytest.approx(1.8)
    assert found.energy_saved == pytest.approx(1 - 1.8 / 3.0)
    assert found.time_lost == pytest.approx(0.2)
    assert (
        "needs the least energy at 1000 MHz: 1.8 J a request, 40 % less than with no limit, for 20 % more time"
        in sentence(found)
    )
    assert sweeps([job(1400, 250, 10.5), job(1000, 150, 12.0)]) == ()
    (limits,) = sweeps([job(None, p, 10.0, limit=w) for p, w in ((300, 300), (250, 250), (200, 200))])
    assert (limits.control, limits.best.value) == ("power_w", 200)
    (flat,) = sweeps([job(clock, 100, 10.0) for clock in (1400, 1000, 600)])
    assert sentence(flat) == "j: no clock needs less energy per request than 1400 MHz."


# --- power by tenant


def test_power_is_split_by_each_rule():
    activity = {"a": 3.0, "b": 1.0}
    assert attribute("activity share", 100.0, activity) == pytest.approx({"a": 75, "b": 25})
    assert attribute("idle split", 100.0, activity, idle_w=40.0) == pytest.approx({"a": 65, "b": 35})
    assert attribute("idle split", 30.0, activity, idle_w=40.0) == pytest.approx({"a": 15, "b": 15})
    assert attribute("activity share", 100.0, {"a": 0.0, "b": 0.0}) == {"a": 50, "b": 50}
    worth = {frozenset("a"): 80.0, frozenset("b"): 50.0}
    assert attribute("shapley", 100.0, activity, idle_w=20.0, coalitions=worth) == pytest.approx(
        {"a": (60 + 50) / 2 + 10, "b": (30 + 20) / 2 + 10}
    )
    with pytest.raises(ValueError, match="missing"):
        attribute("shapley", 100.0, activity)
    with pytest.raises(ValueError, match="no tenant"):
        attribute("activity share", 100.0, {})


def test_shapley_values_are_means_over_all_orders():
    names, random = "abc", np.random.default_rng(1)
    worth = {
        frozenset(part): float(random.uniform(50, 200))
        for k in range(1, 4)
        for part in itertools.combinations(names, k)
    }
    worth[frozenset()] = 30.0
    found = attribute("shapley", worth[frozenset(names)], dict.fromkeys(names, 1.0), idle_w=30.0, coalitions=worth)
    for name in names:
        added = [
            worth[frozenset(order[: order.index(name) + 1])] - worth[frozenset(order[: order.index(name)])]
            for order in itertools.permutations(names)
        ]
        assert found[name] == pytest.approx(np.mean(added) + 10.0)


# --- whether GPUs are alike


@pytest.mark.parametrize(("n", "m"), [(3, 3), (3, 5), (5, 9)])
def test_pairs_of_few_runs_are_tested_exactly(n, m):
    random = np.random.default_rng(n * m)
    for _ in range(5):
        a, b = random.normal(size=n), random.normal(0.8, 1, m)
        _, _, p = summary.kolmogorov_smirnov_pairs([a, b])
        assert p[0] == pytest.approx(stats.ks_2samp(a, b, method="exact").pvalue)


def test_pairs_of_many_runs_by_stephens():
    random = np.random.default_rng(5)
    a, b = random.normal(size=30), random.normal(0.3, 1, 40)
    distance, effective = stats.ks_2samp(a, b).statistic, math.sqrt(30 * 40 / 70)
    _, _, p = summary.kolmogorov_smirnov_pairs([a, b])
    assert p[0] == pytest.approx(special.kolmogorov((effective + 0.12 + 0.11 / effective) * distance))


def test_robust_effects_and_ranks():
    a, b = np.array([1.0, 2, 3, 4, 100]), np.array([11.0, 12, 13, 14, 15])
    inner = np.array([2.0, 2, 3, 4, 4])
    pooled = math.sqrt(2 * ((inner - inner.mean()) ** 2).sum() / 8)
    assert summary.robust_effect(a, b) == pytest.approx(0.642 * (3 - 13) / pooled)
    assert summary.robust_effect(np.ones(5), np.ones(5)) == 0.0
    assert summary.robust_effect(np.ones(5), np.zeros(5)) == math.inf
    random = np.random.default_rng(3)
    x, y = random.integers(0, 6, 12).astype(float), random.integers(0, 6, 12).astype(float)
    assert summary.rank_correlation(x, y) == pytest.approx(stats.spearmanr(x, y).statistic)
    counts = np.array([[1] * 12, [2, 0, 1, 3] * 3])
    drawn = np.repeat(np.arange(12), counts[1])
    assert summary.rank_correlation(x, y, counts) == pytest.approx(
        [stats.spearmanr(x, y).statistic, stats.spearmanr(x[drawn], y[drawn]).statistic]
    )


def test_the_slowest_of_several_is_expected_over_all_choices():
    times = np.array([10.0, 11, 13, 12, 20])
    found = summary.straggler_cost(times, (2, 3, 8))
    assert [*found] == [2, 3]
    for k in (2, 3):
        expected = np.mean([max(chosen) for chosen in itertools.combinations(times, k)]) / 12
        assert found[k].est == pytest.approx(expected)
    assert isinstance(summary.straggler_cost(times[:1])[2], Missing)


# --- chances of keeping an objective


@pytest.mark.parametrize(
    ("est", "ends", "limit", "chance"),
    [
        (10.0, (8.0, 12.5), 10.0, 0.5),
        (10.0, (8.0, 12.5), 12.5, stats.norm.cdf(1.96)),
        (10.0, (8.0, 12.5), 8.0, stats.norm.cdf(-1.96)),
        (10.0, (10.0, 10.0), 10.0, 1.0),
        (10.0, (10.0, 10.0), 9.9, 0.0),
        (10.0, (0.0, 12.0), 5.0, 0.5),
    ],
)
def test_the_chance_below_a_limit_is_that_of_a_log_normal(est, ends, limit, chance):
    assert option.chance_below(est, ends, limit, 1.96) == pytest.approx(chance)


def test_headroom_and_names_of_objectives():
    seen = SimpleNamespace(est=8.0)
    found = option.MeasuredObjective(0.99, 10.0, seen, 1.0, "kept", None, 1.0)
    assert (found.headroom, found.name) == (pytest.approx(0.2), "p99")
    assert option.MeasuredObjective(0.95, 10.0, None, 1.0, "kept", None, 1.0, "ttft").name == "ttft p95"
    assert option.MeasuredObjective(0.95, 10.0, None, 1.0, "kept", None, 1.0).headroom is None


def objective_tenant(*, share=1.0, n=100, simulated=False, quantile=0.9):
    slo = SimpleNamespace(share=SimpleNamespace(est=share, n=n), quantile=quantile, needs_n=500)
    return SimpleNamespace(slo=slo, cell=SimpleNamespace(simulated=simulated, solo=False), model_error=None)


def test_without_an_interval_the_chance_comes_from_late_requests():
    late = option._chance(objective_tenant(share=0.95), None, 10.0)
    assert late == pytest.approx(1 - stats.beta.cdf(0.9, 95.5, 5.5))
    seen = SimpleNamespace(est=10.0, lo=8.0, hi=12.5)
    assert option._chance(objective_tenant(), seen, 12.5) == pytest.approx(stats.norm.cdf(1.96))
    half = SimpleNamespace(est=10.0, lo=8.0, hi=None)
    assert option._chance(objective_tenant(share=0.95), half, 12.5) == pytest.approx(late)
    assert option._chance(objective_tenant(simulated=True), seen, 12.5) == pytest.approx(stats.norm.cdf(1.645))
    assert option._within_error(objective_tenant(), seen, 12.5)
    assert not option._within_error(objective_tenant(), seen, 12.6)
