"""What watched runs tell: totals, blocks, causes and sentences, with figures by hand; and advice on batches."""

import math

import numpy as np
import pytest

from cotenant.analyse.batching import Impact, advise
from cotenant.analyse.neighbours.influence import Influence, TenantSeries
from cotenant.analyse.neighbours.totals import Totals, summed
from cotenant.analyse.neighbours.watched_evidence import (
    WatchedRun,
    _block_numbers,
    _joined,
    alone_factor,
    block_evidence,
    explain_watched,
    mean_factor,
    own_effect,
)
from cotenant.analyse.neighbours.watching import Grant, Watched, WatchedTenant, grant_sentence
from cotenant.tenancy.interval import Estimate, Missing

NAN = math.nan

# --- totals


def test_totals_grow_evenly_between_readings_and_are_unknown_over_gaps_and_restarts():
    totals = Totals.of([3, 0, 1, 2, 2, NAN, 10, 11, 12], [6, 0, 2, 4, 99, 5, 50, 1, 3])
    assert (totals.t_s.tolist(), totals.value.tolist()) == ([0, 1, 2, 3, 10, 11, 12], [0, 2, 4, 6, 50, 1, 3])
    assert (totals.period_s, totals.restarts, totals.gaps()) == (1.0, 1, [(3.0, 10.0)])
    found = totals.within(np.array([-1.0, 0.0, 0.5, 2.5, 3.0, 10.0, 10.5, 11.0, 12.0, 13.0]))
    assert found.tolist()[1:4] == pytest.approx([1.0, 4.0, 1.0])
    assert np.isnan(found).tolist() == [True, False, False, False, True, True, True, False, True]
    assert found[7] == pytest.approx(2.0)
    lone = Totals.of([1.0], [5.0])
    assert math.isnan(lone.period_s)
    assert np.isnan(lone.within(np.array([0.0, 1.0, 2.0]))).tolist() == [True, True]
    two = Totals.of([0.0, 4.0], [0.0, 8.0])
    assert (two.gaps(), two.within(np.array([1.0, 2.0])).tolist()) == ([], [2.0])
    nearly = Totals.of([0.0, 1.0, 2.0, 5.5], [0.0, 1.0, 2.0, 9.0])
    assert nearly.gaps() == [], "three and a half distances are no gap"


def test_counters_are_summed_at_the_times_of_the_first():
    first, other = Totals.of([0, 1, 2], [0, 10, 20]), Totals.of([0.5, 1.5], [5, 7])
    assert summed([Totals.of([], []), first, first]).value.tolist() == [0, 20, 40]
    assert summed([first, other]).value.tolist() == pytest.approx([5, 16, 27])
    assert summed([]) is None


# --- series


def series(name, units, time_each, *, step_s=10.0, activity=None, requests=None, **more):
    units = np.asarray(units, float)
    return TenantSeries(
        name, step_s, units if requests is None else np.asarray(requests, float), units, units * time_each, "latency",
        units if activity is None else np.asarray(activity, float), "/s", **more,
    )  # fmt: skip


def tenant(name, *, rate=None, **more):
    fields = {
        "requests": 1, "rate_rps": rate, "cv": None, "mean_ms": 5.0, "quantiles_ms": {}, "first_bound_ms": None,
        "token_ms": None, "first_ms": None, "tokens_in": None, "tokens_out": None, "device_ms": None, "cores": None,
        "gpu_share": None, "restarts": 0, "unknown_s": 0.0,
    }  # fmt: skip
    return WatchedTenant(name, "vllm", **fields | more)


def watched(tenants, all_series, influences=(), cores=None):
    return Watched(tuple(tenants), tuple(influences), tuple(all_series), 0.0, 10.0, (), (), "a GPU", cores)


def influence(neighbour, name, busy, *, verdict="slows", light=None):
    return Influence(
        neighbour, name, "latency", verdict, busy, light or Missing("never light"), "idle", 5.0, "/s", None, 10.0
    )


def about(value, low=None, high=None):
    return Estimate(value, low or value * 0.9, high or value * 1.1, 8, "by hand")


# --- times block by block


def test_runs_are_joined_as_if_their_intervals_had_one_length():
    runs = [series("a", [10, 20], 0.1, step_s=5.0), series("a", [30], 0.2, step_s=20.0)]
    joined, of_run, at = _joined(runs)
    assert joined.units.tolist() == [20, 40, 15]
    assert joined.time_s.tolist() == pytest.approx([2.0, 4.0, 3.0])
    assert (joined.step_s, of_run.tolist(), at.tolist()) == (10.0, [0, 0, 1], [0.0, 5.0, 0.0])


def test_blocks_are_of_the_first_length_of_which_every_run_has_eight_or_of_the_most():
    at = np.arange(0, 2400, 10.0)
    everything = np.ones(at.size, bool)
    long = _block_numbers(at, np.zeros(at.size), everything)
    assert np.unique(long).tolist() == list(range(8)), "of 300 s"
    short = _block_numbers(at[:100], np.zeros(100), everything[:100])
    assert np.unique(short).size == 9, "of 120 s"
    both = _block_numbers(np.tile(at[:12], 2), np.repeat([0.0, 1.0], 12), np.ones(24, bool))
    assert np.unique(both).tolist() == [0, 1, 2, 3, 1e6, 1e6 + 1, 1e6 + 2, 1e6 + 3], "of 30 s, the shortest"


def run(name, time_each, *, rate=1.0, sharing="mps", n=240, others=(), load=10.0):
    dice = np.random.default_rng(1)
    units = np.round(load * (1 + 0.2 * dice.random(n)))
    mine = series("a", units, time_each * np.ones(n))
    return WatchedRun(name, sharing, watched([tenant("a", rate=rate), *map(tenant, others)], [mine]))


def test_a_run_is_compared_with_another_block_by_block():
    found, notes = block_evidence([run("x", 0.1), run("y", 0.15)])
    assert notes == []
    times = {name: [each.seen.mean_latency_ns for each in found if each.seen.run == name] for name in ("x", "y")}
    assert len(times["x"]) == len(times["y"]) == 8
    assert times["x"] == pytest.approx([0.1e9] * 8, rel=0.02)
    assert times["y"] == pytest.approx([0.15e9] * 8, rel=0.02)
    first = found[0].seen
    assert (first.mix, first.sharing, first.tenant, first.verdict, first.solo) == ("a", "mps", "a", "valid", False)
    assert sum(each.seen.n for each in found if each.seen.run == "x") == pytest.approx(240 * 11, rel=0.02)


def test_only_tenants_that_all_runs_have_are_compared():
    both = run("x", 0.1)
    other = series("b", both.watched.series[0].units, 0.2 * np.ones(240))
    both = WatchedRun("x", "mps", watched([tenant("a"), tenant("b")], [*both.watched.series, other]))
    found, _ = block_evidence([both, run("y", 0.15)])
    assert {(each.seen.tenant, each.seen.mix) for each in found} == {("a", "a")}


def test_what_else_differs_between_runs_is_noted():
    _, notes = block_evidence([run("x", 0.1, rate=10.0), run("y", 0.1, rate=11.1, sharing="streams")])
    assert notes == [
        "They shared the device by mps and then streams.",
        "a served 10.0/s and then 11.1/s; times are compared at loads of its own that all runs have.",
    ]
    assert block_evidence([run("x", 0.1, rate=10.0), run("y", 0.1, rate=11.0)])[1] == []
    assert block_evidence([run("x", 0.1, rate=10.0), run("y", 0.1, rate=None)])[1] == []
    found, notes = block_evidence([run("x", 0.1), run("y", 0.1, load=500.0)])
    assert found == []
    assert "never under the same load" in notes[0]


def test_a_tenant_that_can_not_be_compared_leaves_the_others_to_be():
    def both(name, load):
        made = run(name, 0.1, others=("b",))
        other = series("b", np.full(240, load), 0.1 * np.ones(240))
        return WatchedRun(name, "mps", watched(made.watched.tenants, [other, *made.watched.series]))

    found, notes = block_evidence([both("x", 10.0), both("y", 500.0)])
    assert {each.seen.tenant for each in found} == {"a"}
    assert {each.seen.mix for each in found} == {"b+a"}
    assert [note.split()[0] for note in notes] == ["b"]


# --- what a tenant's time is made of

PATTERN = np.tile(np.repeat([0.0, 4.0, 10.0], 8), 30)
"""A neighbour's activity: idle, light, busy, each for 80 s."""


def test_the_mean_factor_weighs_levels_by_the_tenants_work():
    units = np.where(PATTERN == 10, 30.0, 10.0)
    units[0] = NAN
    seen = watched([], [series("a", units, 0.1), series("b", PATTERN, 0.1)])
    share = 8 * 30 * 30, 8 * 30 * 10, 8 * 30 * 10 - 10
    expected = (share[0] * 2.0 + share[1] + share[2]) / sum(share)
    assert mean_factor(seen, influence("b", "a", about(2.0))) == pytest.approx(expected)
    expected = (share[0] * 2.0 + share[1] * 1.5 + share[2]) / sum(share)
    assert mean_factor(seen, influence("b", "a", about(2.0), light=about(1.5))) == pytest.approx(expected)
    assert mean_factor(seen, influence("b", "a", Missing("why"))) is None
    nothing = watched([], [series("a", 0 * PATTERN, 0.1), series("b", PATTERN, 0.1)])
    assert mean_factor(nothing, influence("b", "a", about(2.0))) is None
    both = watched(
        [],
        [series("a", units, 0.1), series("b", PATTERN, 0.1)],
        [influence("b", "a", about(2.0)), influence("b", "a", about(3.0)), influence("a", "b", about(9.0))],
    )
    one, two = (mean_factor(both, each) for each in both.influences[:2])
    assert alone_factor(both, "a") == pytest.approx(one * two)
    assert alone_factor(both, "c") == 1.0


def test_a_tenants_own_load_has_an_effect_of_its_own():
    slower = np.where(PATTERN == 10, 0.15, 0.1) * (1 + 0.02 * np.sin(np.arange(PATTERN.size)))
    found, busy_from = own_effect(series("a", np.maximum(PATTERN, 1.0), slower))
    assert found.est == pytest.approx(1.5, rel=0.02)
    assert found.lo < 1.5 < found.hi
    assert busy_from == pytest.approx(0.5), "half of the usual top of one per second"
    found, _ = own_effect(series("a", np.full(60, 5.0), 0.1))
    assert found.reason == "a had the same load all the time"
    few = np.concatenate([np.full(60, 1.0), np.full(5, 9.0)])
    assert isinstance(own_effect(series("a", few, 0.1))[0], Missing)
    by_units, _ = own_effect(series("a", np.maximum(PATTERN, 1.0), slower, requests=0 * PATTERN))
    assert by_units.est == pytest.approx(1.5, rel=0.02)


def explained(cores=None, verdict="slows", of=4, gpu=None, **usage):
    mine = series("a", np.full(PATTERN.size, 10.0), 0.1)
    more = {} if cores is None else {"cores": np.where(PATTERN == 10, cores, 0.1)}
    more |= {} if gpu is None else {"gpu": np.where(PATTERN == 10, gpu, 0.1)}
    other = series("b", PATTERN, 0.1, **more)
    seen = watched([tenant("a", **usage)], [mine, other], [influence("b", "a", about(1.6), verdict=verdict)], cores=of)
    return explain_watched(seen)


def test_causes_in_sentences():
    found = explained(cores=3.6)
    text = found.sentences()
    assert text[0] == "a took 5.00 ms for a request."
    assert "Over the watched time it cost a 20 %." in text[1]
    assert text[1].endswith("Cores were short: together they used 3.60 of 4 meanwhile.")
    assert found.tenants[0].neighbours == (("b", pytest.approx(1.2)),)
    assert "Neither cores nor" in explained(cores=3.5).sentences()[1]
    assert "The GPU's time was short: together their kernels ran for 90 %" in explained(gpu=0.9).sentences()[1]
    assert "Neither cores nor" in explained(gpu=0.89).sentences()[1]
    plain = explained().sentences()[1]
    assert "short" not in plain
    hardly = explained(cores=3.6, verdict="hardly").sentences()[1]
    assert "cost a" not in hardly
    assert "short" not in hardly


def test_usage_in_sentences():
    assert explained(cores=1.0, token_ms=2.5).sentences()[0] == "a took 2.50 ms for a token."
    figures = tenant("a", mean_ms=None, cores=1.5, gpu_share=0.25)
    used = explain_watched(watched([figures], [series("a", [1.0] * 9, 0.1)], cores=8))
    assert used.sentences()[0] == "a tells no times and used 1.50 of 8 cores and 25 % of the GPU's time."
    silent = TenantSeries("a", 5.0, np.ones(9), np.empty(0), np.empty(0), "latency", np.ones(9), "/s")
    found = explain_watched(watched([tenant("a")], [silent])).tenants[0]
    assert (found.own.reason, found.own_from) == ("its times aren't published", 0.0)
    assert explain_watched(watched([tenant("a")], [silent])).to_json()["device"] == "a GPU"


@pytest.mark.parametrize(("got", "said"), [(2.1, "within"), (2.11, "more than"), (0.5, "within")])
def test_a_grant_is_honoured_within_a_twentieth(got, said):
    grant = Grant("cores", "cgroup", 2.0, got, "cores")
    assert f"{said} the 2.00 cores granted (cgroup)" in grant_sentence(tenant("a"), grant)


# --- advice on batches


def impact(batch, items, ms, **stages):
    return Impact(batch, about(items), ms, stages or {"forward": ms})


SIZES = [impact(1, 100, 10), impact(4, 380, 13), impact(16, 400, 41)]


@pytest.mark.parametrize(
    ("options", "batch", "reason"),
    [
        ({}, 4, "device-bound: larger sizes give at most 5.3 % more"),
        ({"latency_goal_ms": 13}, 4, "latency goal: larger sizes take more than 13 ms"),
        ({"latency_goal_ms": 41}, 4, "device-bound"),
        ({"latency_goal_ms": 12.9}, 1, "latency goal"),
        ({"latency_goal_ms": 9}, None, "no size stays within 9 ms: the quickest, 1, takes 10 ms"),
        ({"largest": 4}, 4, "not yet saturated"),
        ({"largest": 3}, 1, "not yet saturated"),
        ({"largest": 0}, None, "none of the sizes fits"),
    ],
)
def test_advice_at_its_limits(options, batch, reason):
    found = advise(SIZES, **options)
    assert found.batch == batch
    assert found.reason.startswith(reason)


def test_a_loader_that_takes_half_of_a_request_binds():
    fed = [impact(1, 100, 10, load_data=3.0, to_device=2.0, forward=5.0), impact(2, 100, 20)]
    assert advise(fed).reason.startswith("loader-bound: 50 % of a request")
    less = [impact(1, 100, 10, load_data=3.0, data_to_device=1.9, forward=5.1), impact(2, 100, 20)]
    assert advise(less).reason.startswith("device-bound")
    assert Impact(1, about(1.0), 1.0).feeding_share == 0.0
