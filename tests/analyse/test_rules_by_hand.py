"""Small rules of the analysis: attribution of power, clocks, options of copies, ranks, errors of models."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from cotenant.analyse import copy_options, findings
from cotenant.analyse.copy_options import CopyStart, options_of
from cotenant.analyse.estimates.quantiles import interval_ranks, needed_for
from cotenant.analyse.result import mostly_valid
from cotenant.analyse.sharing import model_error
from cotenant.analyse.tabular import plain
from cotenant.analyse.variability import attribution, frequency, sensor_quality
from cotenant.analyse.variability.attribution import Drawn, attribute, shared_power
from cotenant.analyse.variability.frequency import AtSetting, best_clock, clock_curves, fit_power, fit_time
from cotenant.tenancy.interval import Estimate, Missing

# --- power by tenant


def test_power_by_activity_and_with_idle_power_in_equal_parts():
    activity = {"a": 3.0, "b": 1.0}
    assert attribute("activity share", 100.0, activity) == {"a": 75.0, "b": 25.0}
    assert attribute("idle split", 100.0, activity, idle_w=20.0) == {"a": 70.0, "b": 30.0}
    assert attribute("idle split", 10.0, activity, idle_w=20.0) == {"a": 5.0, "b": 5.0}
    assert attribute("activity share", 100.0, {"a": 0.0, "b": 0.0}) == {"a": 50.0, "b": 50.0}
    with pytest.raises(ValueError, match="no tenant"):
        attribute("activity share", 100.0, {})


def test_shapley_is_the_mean_over_all_orders_of_arrival():
    names = ("a", "b", "c")
    worth = {frozenset(): 10.0}
    for size in (1, 2, 3):
        for group in itertools.combinations(names, size):
            worth[frozenset(group)] = 10.0 + sum(ord(name) - 90 for name in group) ** 0.9
    means = dict.fromkeys(names, 0.0)
    for order in itertools.permutations(names):
        for place, name in enumerate(order):
            added = worth[frozenset(order[: place + 1])] - worth[frozenset(order[:place])]
            means[name] += added / 6
    found = attribute(
        "shapley", worth[frozenset(names)], dict.fromkeys(names, 1.0), idle_w=10.0,
        coalitions={group: watts for group, watts in worth.items() if 0 < len(group) < 3},
    )  # fmt: skip
    assert found == pytest.approx({name: watts + 10 / 3 for name, watts in means.items()})
    assert sum(found.values()) == pytest.approx(worth[frozenset(names)])
    with pytest.raises(ValueError, match="every set"):
        attribute("shapley", 1.0, dict.fromkeys(names, 1.0))
    with pytest.raises(ValueError, match="at most 12"):
        attribute("shapley", 1.0, {str(number): 1.0 for number in range(13)})
    assert attribution.MOST_FOR_SHAPLEY == 12


def drawn(trial, work, neighbours, power_w, *, time_ms=1.0, requests=10):
    return Drawn("s", "{}", False, trial, work, neighbours, time_ms, requests, power_w)


def test_power_of_work_that_shared_a_gpu():
    alone = [drawn(1, "a", 0, 60.0), drawn(2, "b", 0, 40.0)]
    both = [drawn(3, "a", 1, 80.0, requests=30), drawn(3, "b", 1, 80.0)]
    again = [drawn(4, "a", 1, 100.0, requests=30), drawn(4, "b", 1, 100.0)]
    (found,) = shared_power([*alone, *both, *again], "A100", {"s": "a source"})
    assert (found.gpu, found.source, found.trials, found.power_w, found.rule) == (
        "A100",
        "a source",
        2,
        90.0,
        "shapley",
    )
    assert found.watts == pytest.approx({"a": 55.0, "b": 35.0})
    (found,) = shared_power([*alone[:1], *both], "A100", {"s": "x"})
    assert (found.rule, found.watts) == ("activity share", pytest.approx({"a": 60.0, "b": 20.0}))
    copies = [drawn(5, "a", 1, 90.0)]
    assert shared_power([*alone, *copies], "A100", {"s": "x"}) == []
    assert plain(found)["watts"] == {"a": 60.0, "b": 20.0}


# --- clocks

CLOCKS = np.array([600.0, 800.0, 1000.0, 1200.0, 1400.0, 1600.0])


def test_curves_of_clocks_are_recovered():
    power = 40 + 0.05 * CLOCKS + 2e-4 * np.maximum(0, CLOCKS - 1000) ** 2
    found = fit_power(np.repeat(CLOCKS, 2), np.repeat(power, 2))
    assert found.at(CLOCKS) == pytest.approx(power, rel=0.01)
    assert (found.knee_mhz, found.idle_w) == (pytest.approx(1000, rel=0.05), pytest.approx(40, rel=0.1))
    assert (found.clocks, found.held_out < 0.05) == (6, True)
    assert fit_power(CLOCKS[:5], power[:5]).held_out is None
    with pytest.raises(ValueError, match="5 different clocks, not 4"):
        fit_power(CLOCKS[:4], power[:4])
    time = 3 + 2 * 1600 / CLOCKS
    fitted = fit_time(CLOCKS, time)
    assert (fitted.memory_ms, fitted.core_ms, fitted.top_mhz) == pytest.approx((3.0, 2.0, 1600.0))
    assert (fitted.core_share, fitted.held_out) == (pytest.approx(0.4), pytest.approx(0.0, abs=1e-9))
    assert fitted.at(np.array([800.0])) == pytest.approx(7.0)
    assert fit_time(CLOCKS[:3], time[:3]).held_out is None
    with pytest.raises(ValueError, match="3 different clocks, not 2"):
        fit_time(CLOCKS[:2], time[:2])
    assert frequency.TimeByClock(0.0, 0.0, 1.0, None, 3).core_share == 0.0
    off = time * np.where(CLOCKS == 600, 1.1, 1.0)
    assert fit_time(CLOCKS, off).held_out > 0.01


def test_the_best_clock_is_the_one_of_least_energy():
    found = best_clock(
        np.array([1.0, 1.0, 2.0, 3.0]), np.array([9.0, 11.0, 15.0, 40.0]), np.array([4e3, 4e3, 2e3, 1e3])
    )
    assert (found.clock_mhz, found.energy_j) == (2.0, 30.0)
    assert (found.energy_saved, found.time_lost) == (pytest.approx(0.25), pytest.approx(1.0))


@pytest.mark.parametrize(("clocks", "curves"), [(2, 0), (3, 1), (5, 1)])
def test_curves_need_three_settings(clocks, curves):
    def at(number, power):
        clock = 600.4 + 200 * number
        return AtSetting("gemm", "A100", "g", False, f"clock {number}", clock, 1e3 / clock, power, 3)

    found = clock_curves([at(number, 50.0 + 10 * number) for number in range(clocks)])
    assert len(found) == curves
    for curve in found:
        assert (curve.work, curve.time is not None, curve.best is not None) == ("gemm on A100", True, True)
        assert (curve.power is not None) == (clocks >= 5)
        assert curve.to_json()["points"][0]["clock_mhz"] == 600.4
    dark = clock_curves([at(0, None), at(1, 1.0), at(2, 1.0)._replace(model=None), *(at(3, 1.0), at(4, 1.0))])
    assert [(curve.work, curve.power, curve.best) for curve in dark] == [("gemm on A100", None, None)]
    same = clock_curves([at(0, 1.0)._replace(settings=name) for name in "abc"])
    assert (same[0].time, same[0].best) == (None, None)


# --- options of copies


def start(block, copies, rps, *, checks=(), failed=None, died=None, reasons=(), cores=None, memory=None, resolved=None):
    mix = "+".join(["m"] * copies)
    return CopyStart(block, mix, "mps", copies, failed, died, checks, reasons, rps, cores, memory, resolved or {})


class Place:
    """A cell, as far as options look at it."""

    def __init__(self, mix, *, solo=False):
        self.mix, self.sharing, self.solo, self.simulated = mix, "mps", solo, False


def copy_of(cell, rps, *, mean_ms=10.0, p99=20.0):
    def about(value):
        return Estimate(value, value * 0.9, value * 1.1, 3, "by hand")

    times = {name: about(p99) for name in ("p50", "p95", "p99")}
    return SimpleNamespace(
        cell=cell, throughput_rps=about(rps), mean_latency_ms=about(mean_ms), latency_ms=times, slo=None, objectives=(),
        slo_ms=None, tokens=None,
    )  # fmt: skip


def test_options_of_a_run(monkeypatch):
    monkeypatch.setattr(copy_options, "objective_of", lambda _: None)
    one, two = Place("m", solo=True), Place("m+m")
    use = SimpleNamespace(cell=two, sm_active=SimpleNamespace(value=0.7), dram_active=None)
    result = SimpleNamespace(
        tenants=[copy_of(one, 100.0), copy_of(two, 70.0, p99=30.0), copy_of(two, 80.0, mean_ms=5.0)],
        mixes=[SimpleNamespace(cell=two, metrics={"stp": Estimate(1.4, 1.3, 1.5, 3, "")})],
        device_use=[use],
    )
    starts = [
        start(0, 2, 150.0, cores=2.0, memory=10, resolved={"cache": 3}),
        start(1, 2, 140.0, checks=("load_sustained", "steady"), cores=3.0, memory=30),
        start(1, 2, None, failed="no room", cores=99.0, memory=99),
        start(2, 2, 150.0, checks=("copies_equal",), reasons=("caches differ: 1 and 2", "else")),
        start(0, 1, 100.0),
        start(1, 1, 100.0),
    ]
    first, second = options_of(result, starts, load_each=2.0)
    assert (first.copies, first.gain.est, first.throughput_rps.est, first.valid) == (1, 1.0, 100.0, 2)
    assert second.gain.est == pytest.approx(math.sqrt(1.5 * 1.4))
    served = second.throughput_rps
    assert (served.est, served.lo, served.hi) == pytest.approx((150.0, 135.0, 165.0))
    assert second.latency_ms["p99"].est == 30.0
    assert (second.held, second.valid, second.unequal) == (False, 2, ("caches differ: 1 and 2",))
    assert second.doubts == ("load_sustained", "steady", "copies_equal")
    assert (second.cores, second.memory_bytes, second.resolved) == (2.5, 30, {"cache": 3})
    assert (second.sm_active, second.dram_active) == (0.7, None)
    assert second.in_flight == pytest.approx(min(70 * 10, 80 * 5) / 1e3 / 2.0)
    assert (second.reliability.starts, second.reliability.failed, second.reliability.degraded) == (4, 1, 1)
    assert first.kept is None
    given = options_of(result, starts, load_each=None)
    assert (given[1].in_flight, given[1].gain.reason) == (None, "the rate is given")
    two.simulated = True
    one.simulated = True
    made = options_of(result, starts, load_each=2.0)
    assert (made[0].gain.est, made[1].gain.est) == (1.0, 1.4)
    result.mixes = []
    assert isinstance(options_of(result, starts, load_each=2.0)[1].gain, Missing)
    answers = iter(["kept", "open", "kept"])
    monkeypatch.setattr(copy_options, "objective_of", lambda _: SimpleNamespace(answer=next(answers)))
    kept = options_of(result, starts[:1], load_each=2.0)
    assert kept[0].kept == "open"


# --- ranks, verdicts, members


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("n", [6, 20, 29, 50, 300, 459, 1000])
def test_ranks_enclose_a_quantile_and_no_fewer_would(n, q):
    if n < needed_for(q):
        with pytest.raises(ValueError, match="can't enclose"):
            interval_ranks(n, q)
        return
    low, high = interval_ranks(n, q)

    def coverage(lo, hi):
        return stats.binom.cdf(hi - 1, n, q) - stats.binom.cdf(lo - 1, n, q)

    assert 1 <= low < high <= n
    assert coverage(low, high) >= 0.95 - 1e-9
    if low > 1 and high < n:
        assert stats.binom.cdf(low - 1, n, q) <= 0.025 + 1e-12 < stats.binom.cdf(low, n, q)
        assert stats.binom.cdf(high - 2, n, q) <= 0.975 < stats.binom.cdf(high - 1, n, q) + 1e-12
    elif high == n:
        assert coverage(low + 1, n) < 0.95


@pytest.mark.parametrize(
    ("trials", "usable"),
    [({}, False), ({"valid": 1}, True), ({"valid": 1, "suspect": 1}, True), ({"valid": 1, "suspect": 2}, False),
     ({"suspect": 2}, False)],
)  # fmt: skip
def test_half_of_the_trials_have_to_be_valid(trials, usable):
    assert mostly_valid(trials) is usable


def test_members_differ_surely_if_five_blocks_each_do():
    few = findings.FEWEST_BLOCKS
    assert findings._surely({"a": [2.0] * few, "b": [1.0] * few})
    assert not findings._surely({"a": [2.0] * few, "b": [1.0] * (few - 1)})
    assert not findings._surely({"a": [2.0] * (few - 1), "b": [1.0] * few})
    assert not findings._surely({"a": [2.0] * (few - 1) + [1.0], "b": [1.0] * few})


# --- errors of models


def error(low, high, kind="encoder", time=(1.0, 1.0)):
    return SimpleNamespace(slowdown=(low, high), kind=kind, time=time)


def test_errors_of_ratios_and_work():
    assert model_error.of_ratio(error(0.5, 2.0), error(0.5, 2.0)) == pytest.approx(
        (math.exp(-math.hypot(1, 1) * math.log(4) / 2), math.exp(math.hypot(1, 1) * math.log(4) / 2))
    )
    shared = model_error.of_ratio(error(1.0, 4.0), error(1.0, 1.0))
    assert shared == pytest.approx((1.0, 4.0))
    same = model_error.of_work([0.5, 0.5], [error(0.8, 1.25), error(0.8, 1.25)])
    assert same == pytest.approx((1 - 0.2, 1 + 0.25))
    other = model_error.of_work([0.5, 0.5], [error(0.8, 1.25), error(0.8, 1.25, "decoder")])
    assert other == pytest.approx((1 - math.hypot(0.1, 0.1), 1 + math.hypot(0.125, 0.125)))
    one_sided = model_error.of_work([2.0], [error(1.1, 0.9)])
    assert one_sided == pytest.approx((1.0, 1.0))
    assert model_error.inverse((0.5, 4.0)) == (0.25, 2.0)


def test_intervals_widened_by_a_models_error_stay_possible():
    number = Estimate(2.0, 1.8, 2.2, 3, "t")
    found = model_error.widened_estimate(number, (0.5, 1.5))
    assert (found.lo, found.hi) == pytest.approx((0.9, 3.3))
    bounded = model_error.widened_estimate(number, (0.5, 1.5), least=1.0, most=3.0)
    assert (bounded.lo, bounded.hi) == (1.0, 3.0)
    inside = model_error.widened_estimate(number, (1.2, 0.9), least=5.0, most=0.0)
    assert (inside.lo, inside.hi) == (1.8, 2.2)
    bare = model_error.widened_estimate(Estimate(2.0, None, None, 3, "t"), (0.5, 1.5))
    assert (bare.lo, bare.hi) == (1.0, 3.0)
    missing = Missing("why")
    assert model_error.widened(missing, (0.5, 1.5)) is missing


# --- how a GPU warms up


def heated(seconds=900, *, fast=(0.05, 1.0), slow=(0.1, 60.0), air=25.0):
    at = np.arange(float(seconds))
    power = np.where((at // 90) % 2 == 0, 100.0, 300.0)
    heat = np.full(at.size, air)
    for resistance, tau in (fast, slow):
        state = power[0]
        for number in range(at.size):
            heat[number] += resistance * state
            state += (power[number] - state) * (1 - math.exp(-1 / tau))
    return at, power, heat


def test_two_poles_of_a_gpu_are_found():
    at, power, heat = heated()
    found = sensor_quality.fit_heat(at + 50, power, heat)
    assert found.air_c == pytest.approx(25.0, abs=4.0)
    assert found.fast_c_per_w + found.slow_c_per_w == pytest.approx(0.15, rel=0.15)
    assert found.slow_s == pytest.approx(60.0, rel=0.4)
    assert found.held_out_rmse_c < 0.7 < found.one_pole_rmse_c
    assert found.span_s == 899.0
    for bad in (
        (at[:29], power[:29], heat[:29]),
        (at, np.full(at.size, 5.0), heat),
        (at, power, np.full(at.size, 5.0)),
    ):
        with pytest.raises(ValueError, match="30 readings"):
            sensor_quality.fit_heat(*bad)
    with pytest.raises(ValueError, match=r"does not rise|no better"):
        sensor_quality.fit_heat(at, power, 200 - heat)


def test_a_pole_follows_constant_power_exactly():
    power = np.array([1.0, 1.0, 5.0, 5.0, 5.0])
    keep = math.exp(-2.0 / 3.0)
    expected = [1.0, 1.0, 1.0, 5 - 4 * keep, 5 - 4 * keep**2]
    assert sensor_quality._pole(power, 2.0, 3.0) == pytest.approx(expected)


def test_a_poles_resistance_is_never_negative():
    grid = np.arange(20.0)
    poles = [np.linspace(0, 1, 20), np.linspace(1, 0, 20) ** 2]
    found, rest = sensor_quality._solved(grid, np.ones(20, bool), 30 + 5 * poles[0] - 2 * poles[1], poles, 4.0)
    assert found[1] > 0
    assert found[2] == 0.0
    terms = np.stack([np.ones(20), *poles, np.exp(-grid / 4.0)], 1)
    assert rest == pytest.approx(float(((terms @ found - (30 + 5 * poles[0] - 2 * poles[1])) ** 2).sum()))
