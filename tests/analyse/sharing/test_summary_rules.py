"""A tenant and a mix summarised: what counts, what it is divided by, and which objective speaks for it."""

from types import SimpleNamespace as Facts

import numpy as np
import pytest

from cotenant.analyse.sharing import accuracy, model_error, summarise, tenant_summary
from cotenant.analyse.sharing.cells import Cell
from cotenant.analyse.sharing.slowdown import RunningSlowdowns
from cotenant.analyse.sharing.summarise import METRICS, over_blocks
from cotenant.analyse.sharing.tenant_summary import BY_DEFINITION, NO_SOLO, NO_TRIAL, Baselines, Times
from cotenant.tenancy.interval import Estimate, Missing
from cotenant.tenancy.records import ModelErrorRecord, TenantObservation, TokenGoal, TokenTimes

MS = 1_000_000


def seen(tenant="a", *, block=0, ms=10.0, n=10, verdict="valid", solo=False, mix="a+b", **more):
    row = {
        "run": "r", "trial": block, "block": block, "mix": tenant if solo else mix,
        "sharing": "alone" if solo else "mps", "settings": "{}", "load": "closed(1)", "device": "cpu",
        "simulated": False, "solo": solo, "tenant": tenant, "of": tenant, "verdict": verdict,
        "failed_checks": ("steady",) if verdict != "valid" else (), "n": n, "unfinished": 0, "throughput_rps": 1e3 / ms,
        "mean_latency_ns": ms * MS, "window_s": 2.0,
    }  # fmt: skip
    return TenantObservation(**row | more)


def alone(tenant="a", **more):
    return seen(tenant, solo=True, **more)


def summary(*group, solos=(), common=None):
    given = [*group]
    baselines = Baselines.of([*solos, *(each for each in group if each.solo)])
    return tenant_summary.tenant_summary(
        Cell.of(given[0]), given[0].tenant, given, Times.of(given), baselines, common=common
    )


def test_only_usable_trials_count_and_blocks_are_the_replicates():
    found = summary(
        seen(block=0, ms=10.0), seen(block=0, ms=20.0, unfinished=3), seen(block=1, ms=40.0, verdict="unstable"),
        seen(block=2, ms=90.0, verdict="invalid"),
        solos=[alone(block=0, ms=5.0), alone(block=1, ms=10.0)],
    )  # fmt: skip
    assert (found.blocks, found.requests, found.unfinished) == (2, 30, 3)
    assert found.trials_by_verdict == {"valid": 2, "unstable": 1, "invalid": 1}
    assert found.failed_checks == {"steady": 2}
    assert found.throughput_rps.n == found.mean_latency_ms.n == found.slowdown.n == 2
    assert found.slowdown.est == pytest.approx((200**0.5 / 5 * 4) ** 0.5)
    assert (found.device_ms.reason, found.device_slowdown.reason) == ("no device time", NO_SOLO)
    assert (found.slo, found.slo_ms, found.goodput_rps, found.objectives, found.tokens) == (None, None, None, (), None)


def test_alone_is_one_by_definition():
    found = summary(alone(block=0), alone(block=1))
    assert found.slowdown == Estimate(1.0, 1.0, 1.0, 2, BY_DEFINITION)
    assert summary(seen(verdict="invalid")).slowdown.reason == NO_TRIAL
    assert summary(seen(verdict="invalid")).throughput_rps.reason == NO_TRIAL
    assert summary(seen()).slowdown.reason == NO_SOLO
    idle = summary(seen(n=0, throughput_rps=0.0))
    assert idle.mean_latency_ms.reason == "no request"


def test_a_quantile_says_how_much_longer_it_takes():
    latency = np.full(10, 5 * MS)
    found = summary(seen(latency_ns=latency, unfinished=2))
    assert found.latency_ms["p50"].est == 5.0
    assert set(found.needs_seconds) == {"p90", "p95", "p99"}
    assert found.needs_seconds["p99"] == pytest.approx((299 - 12) / 6), "12 requests came in 2 s"
    assert summary(seen(latency_ns=latency[:0], n=0)).needs_seconds == {}


def test_device_time_and_its_slowdown():
    both = [seen(block=block, mean_device_ns=6 * MS) for block in range(2)]
    found = summary(*both, solos=[alone(block=block, mean_device_ns=3 * MS) for block in range(2)])
    assert (found.device_ms.est, found.device_slowdown.est) == (pytest.approx(6.0), pytest.approx(2.0))


def test_the_objective_missed_most_clearly_speaks_for_a_tenant():
    goals = (TokenGoal("ttft", 3.0, 0.5, 2), TokenGoal("tpot", 2.0, 0.5, 95))
    rows = [
        seen(block=block, n=100, slo_ms=50.0, slo_met=60, slo_quantile=0.5, token_goals=goals, all_met=40)
        for block in range(4)
    ]
    found = summary(*rows)
    assert [(limit, goal.metric, goal.answer) for limit, goal in found.objectives] == [
        (50.0, "latency", "met"), (3.0, "ttft", "missed"), (2.0, "tpot", "met"),
    ]  # fmt: skip
    assert (found.slo_ms, found.slo.metric) == (3.0, "ttft")
    assert found.goodput_rps.est == pytest.approx(20.0), "40 of each 2 s were within all"
    plain = summary(*[seen(block=block, n=100, slo_ms=50.0, slo_met=60) for block in range(4)])
    assert (plain.slo.quantile, plain.goodput_rps.est) == (0.99, pytest.approx(30.0))
    lost = summary(seen(n=0, unfinished=5, slo_ms=50.0, slo_met=0))
    assert (lost.slo.share.est, lost.slo.share.n) == (0.0, 5)
    assert summary(seen(n=0, slo_ms=50.0, slo_met=0)).slo is None


def test_tokens_per_second_and_their_times():
    times = TokenTimes(np.full(10, 3 * MS), np.full(8, 2 * MS), np.full(70, MS))
    found = summary(seen(token_times=times, tokens_out=80, throughput_rps=5.0, latency_ns=np.full(10, MS)))
    assert found.tokens.tokens_per_s.est == pytest.approx(40.0)
    assert [part["p50"].est for part in (found.tokens.ttft_ms, found.tokens.tpot_ms, found.tokens.itl_ms)] == [
        3.0,
        2.0,
        1.0,
    ]
    late = summary(seen(token_times=times, tokens_out=80, unfinished=11, latency_ns=np.full(10, MS)))
    assert late.tokens.ttft_ms["p50"].est is None, "requests that never came are late"
    assert late.tokens.itl_ms["p50"].est == 1.0
    assert summary(seen(token_times=times, tokens_out=None)).tokens.tokens_per_s.reason == "no tokens"
    assert summary(seen(token_times=times, tokens_out=80, verdict="invalid")).tokens is None


def test_the_rate_and_the_software_of_a_tenant():
    found = summary(seen(), seen(block=1, rate_rps=7.0, software="vllm"))
    assert (found.rate_rps, found.software) == (7.0, None)


# --- mixes


def mix(*observations):
    found = summarise.summarise(iter(sorted(observations, key=lambda each: (each.mix, each.tenant, each.block))))
    return next(row for row in found.mixes if not row.cell.solo), found


def test_a_mix_needs_all_its_tenants_in_a_block():
    solos = [alone(name, block=block, ms=5.0) for name in "ab" for block in range(3)]
    shared = [seen("a", block=block, ms=10.0) for block in range(3)] + [
        seen("b", block=block, ms=20.0) for block in (0, 1)
    ]
    found, whole = mix(*solos, *shared, seen("b", block=2, ms=20.0, verdict="invalid"))
    assert (found.blocks, found.tenants, found.verdict) == (2, ("a", "b"), "unstable")
    assert {name: found.metrics[name].est for name in ("stp", "antt", "fairness")} == pytest.approx(
        {"stp": 0.75, "antt": 3.0, "fairness": 0.5}
    )
    assert [row.metrics["stp"] for row in whole.mixes if row.cell.solo] == [
        Estimate(1.0, 1.0, 1.0, 3, BY_DEFINITION)
    ] * 2


@pytest.mark.parametrize(
    ("verdicts", "verdict", "reason"),
    [
        (("invalid", "invalid"), "invalid", NO_TRIAL), (("valid", "invalid"), "unstable", NO_SOLO),
        (("unstable", "unstable"), "unstable", NO_SOLO), (("valid", "valid"), "valid", NO_SOLO),
    ],
)  # fmt: skip
def test_the_verdict_of_a_mix(verdicts, verdict, reason):
    rows = [seen(name, block=block, verdict=each) for name in "ab" for block, each in enumerate(verdicts)]
    found, _ = mix(*rows)
    assert (found.verdict, found.blocks) == (verdict, 0)
    assert {number.reason for number in found.metrics.values()} == {reason}
    assert set(found.metrics) == set(METRICS)
    assert found.trials_by_verdict == {each: verdicts.count(each) for each in set(verdicts)}


def test_the_seconds_of_a_block_are_those_of_its_trials():
    rows = [
        [seen(block=0, window_s=2.0), seen("b", block=0, window_s=2.0), seen(block=0, trial=9, window_s=3.0)],
        [seen(block=1, window_s=5.0), seen(block=0, run="q", window_s=1.0)],
    ]  # fmt: skip
    assert summarise._block_seconds(rows) == {"q": 1.0, "r": 5.0}


@pytest.mark.parametrize(
    ("progress", "values"),
    [
        ([1.0, 1.0], {"stp": 2.0, "antt": 1.0, "harmonic_speedup": 1.0, "fairness": 1.0, "jain": 1.0}),
        ([0.5, 0.25], {"stp": 0.75, "antt": 3.0, "harmonic_speedup": 1 / 3, "fairness": 0.5, "jain": 0.5625 / 0.625}),
    ],
)
def test_metrics_of_a_mix(progress, values):
    assert {name: value_of(progress) for name, (value_of, _) in METRICS.items()} == pytest.approx(values)
    found = {name: over_blocks(name, [progress] * 3).est for name in METRICS}
    assert found == pytest.approx(values)
    assert {name: most for name, (_, most) in METRICS.items() if most is not None} == {"fairness": 1.0, "jain": 1.0}


def test_from_many_blocks_a_metric_is_that_of_the_mean_progress():
    wave = np.resize([0.1, -0.1], 200)
    blocks = np.exp(np.log(0.5) + np.stack([wave, -wave], axis=1))
    assert over_blocks("fairness", blocks).est == pytest.approx(1.0, rel=1e-3), "noise alone makes blocks uneven"
    assert over_blocks("fairness", blocks[:4]).est == pytest.approx(np.exp(-0.2))
    found = over_blocks("fairness", blocks)
    assert 0 <= found.lo <= found.est
    assert found.hi == 1.0, "and no bound is passed"


def test_short_windows_have_doubts_of_their_own():
    tenants = {}

    def doubts(window_s, requests, logs=(1.0,) * 8):
        cell = Cell.of(seen())
        group = [seen(block=block, ms=10.0 * each, window_s=window_s) for block, each in enumerate(logs)]
        tenants[cell, "a"] = Facts(requests=requests)
        solos = Baselines.of([alone(block=block) for block in range(len(logs))]).time
        return list(summarise._doubts(tenants, {(cell, "a"): group}, solos))

    assert doubts(0.1, summarise.FEWEST_REQUESTS) == []
    [few] = doubts(0.1, summarise.FEWEST_REQUESTS - 1)
    assert few == f"a in a+b (mps) served only {summarise.FEWEST_REQUESTS - 1} requests in all windows: measure longer."
    assert doubts(0.1, 0) == []
    assert doubts(summarise.JUDGED_ALONE_S, 1) == [], "judged by itself"
    drifting = [1.0] * 20 + [3.0] * 20
    assert "was not steady over the run" in doubts(0.1, 9999, drifting)[0]


# --- while a run goes on


def test_slowdowns_so_far():
    running = RunningSlowdowns()
    assert running.empty
    running.add([alone(block=0, ms=5.0), alone(block=-1, ms=99.0), seen(block=0, ms=10.0), seen(block=1, ms=30.0)])
    assert not running.empty
    assert running.blocks == 2
    [found] = running.current()
    assert (found.mix, found.sharing, found.load, found.tenant) == ("a+b", "mps", "closed(1)", "a")
    assert found.estimate.est == pytest.approx(2.0), "block 1 has no time alone yet"
    running.add([alone(block=1, ms=10.0)])
    assert running.current()[0].estimate.est == pytest.approx(6**0.5)
    only = RunningSlowdowns()
    only.add([alone()])
    assert (only.empty, only.blocks, only.current()) == (False, 0, [])
    assert isinstance(summary(seen()).slowdown, Missing)


# --- simulated


def error(kind="cnn", slowdown=(0.8, 1.25), **more):
    return ModelErrorRecord(kind, True, "", (0.9, 1.1), slowdown, (0.7, 1.5), **more)


def test_a_simulated_mix_stays_within_what_is_possible():
    solos = [alone(name, block=block, ms=5.0, model_error=error()) for name in "ab" for block in range(3)]
    shared = [seen(name, block=block, ms=5.05, model_error=error()) for name in "ab" for block in range(3)]
    found, _ = mix(*solos, *shared)
    assert (found.metrics["stp"].hi, found.metrics["antt"].lo) == (2.0, 1.0), "no tenant is faster than alone"
    assert (found.metrics["fairness"].hi, found.metrics["jain"].hi) == (1.0, 1.0)
    assert found.metrics["stp"].lo == pytest.approx(2 / 1.01 * (1 - 0.2), rel=0.01)
    assert found.metrics["antt"].hi == pytest.approx(1.01 * 1.25, rel=0.01)
    assert found.metrics["harmonic_speedup"].lo == pytest.approx(1 / 1.01 / 1.25, rel=0.01)


def test_simulated_times_are_as_wide_as_their_error():
    made = [seen(block=block, ms=20.0, model_error=error(), rate_rps=55.0, latency_ns=np.full(300, 20 * MS), n=300)
            for block in range(3)]  # fmt: skip
    found = summary(*made, solos=[alone(block=block, ms=10.0, model_error=error()) for block in range(3)])
    low, high = model_error.time_range(error(), solo=False)
    assert found.mean_latency_ms.ends == pytest.approx((20 * low, 20 * high))
    assert (found.throughput_rps.lo, found.throughput_rps.hi) == pytest.approx((50 / high, 55.0)), "no more than asked"
    assert found.slowdown.ends == pytest.approx((2 * 0.8, 2 * 1.25))
    assert found.latency_ms["p50"].ends == pytest.approx((20 * low, 20 * high))
    assert found.latency_ms["p99"].hi == pytest.approx(20 * model_error.time_range(error(), solo=False, tail=True)[1])
    by_itself = summary(*[alone(block=block, ms=10.0, model_error=error()) for block in range(3)])
    assert by_itself.mean_latency_ms.ends == pytest.approx((9.0, 11.0))
    assert by_itself.slowdown.ends == (1.0, 1.0)


def test_errors_of_a_time_combine_those_of_the_time_alone_and_of_the_slowdown():
    assert model_error.time_range(error(), solo=True) == (0.9, 1.1)
    low, high = model_error.time_range(error(), solo=False)
    assert np.log([low, high]) == pytest.approx(
        [-np.hypot(np.log(0.9), np.log(0.8)), np.hypot(np.log(1.1), np.log(1.25))]
    )
    assert np.log(model_error.time_range(error(), solo=False, tail=True)) == pytest.approx(
        [-np.hypot(np.log(0.9), np.log(0.7)), np.hypot(np.log(1.1), np.log(1.5))]
    )
    compared = error(shared=(0.95, 1.05), shared_tail=(0.5, 2.0))
    assert model_error.time_range(compared, solo=False) == (0.95, 1.05)
    assert model_error.time_range(compared, solo=False, tail=True) == (0.5, 2.0)
    biased = error(slowdown=(1.1, 1.3))
    assert model_error.time_range(biased, solo=False)[0] == pytest.approx(0.9), "an error to one side is one"


def test_errors_of_ratios_and_sums():
    assert model_error.inverse((0.8, 1.25)) == pytest.approx((0.8, 1.25))
    assert model_error.inverse((0.5, 4.0)) == (0.25, 2.0)
    assert model_error.of_ratio(error(), error()) == pytest.approx(
        (np.exp(-np.hypot(1, 1) * np.log(1.25)), np.exp(np.hypot(1, 1) * np.log(1.25)))
    )
    assert model_error.of_work([0.5, 0.5], [error(), error()]) == pytest.approx((0.8, 1.25))
    apart = model_error.of_work([0.5, 0.5], [error("a"), error("b")])
    assert apart == pytest.approx((1 - np.hypot(0.1, 0.1), 1 + np.hypot(0.125, 0.125)))
    two = [error(slowdown=(0.8, 1.0)), error(slowdown=(0.5, 2.0))]
    assert model_error.of_metric("antt", two) == pytest.approx((0.4**0.5, 2**0.5))
    assert model_error.of_metric("harmonic_speedup", two) == pytest.approx((2**-0.5, 0.4**-0.5))
    assert model_error.of_metric("jain", two) == pytest.approx(((0.4**0.5 / 2**0.5) ** 0.5, (2**0.5 / 0.4**0.5) ** 0.5))


# --- how precise


def test_a_block_is_disturbed_if_it_is_an_outlier_in_most_slowdowns():
    calm = {block: 0.001 * (-1) ** block for block in range(accuracy.ROBUST_FROM)}
    odd = calm | {3: 5.0}
    assert accuracy.disturbed_blocks([odd]) == 1
    assert accuracy.disturbed_blocks([odd, odd, calm]) == 1
    assert accuracy.disturbed_blocks([calm, calm]) == 0
    fewer = dict(list(odd.items())[:-1])
    assert accuracy.disturbed_blocks([fewer]) == 0, "too few blocks to tell"


def test_the_speed_of_a_device_varies_between_neighbouring_blocks():
    few = dict.fromkeys(range(accuracy.FEWEST_BLOCKS - 1), 0.0)
    assert accuracy.speed_variation([few]) is None
    steps = {block: 0.1 * (block % 2) for block in range(accuracy.FEWEST_BLOCKS)}
    flat = dict.fromkeys(range(accuracy.FEWEST_BLOCKS), 1.0)
    expected = np.expm1(0.1 / 2**0.5)
    assert accuracy.speed_variation([steps]) == pytest.approx(expected)
    assert accuracy.speed_variation([steps, flat, steps, few]) == pytest.approx(expected), "the median of three"


def test_requests_that_came_count_whether_they_were_served_or_not():
    assert summary(seen(n=10, unfinished=2)).arrived_rps == pytest.approx(6.0), "12 in 2 s"
    assert summary(seen(n=0, unfinished=0)).arrived_rps is None
    assert summary(seen(verdict="invalid")).arrived_rps is None, "in no trial that counts"
