"""What a result says first, which trials make a run usable, and promises in the small."""

from types import SimpleNamespace as Facts

import numpy as np
import pytest

from cotenant.analyse import result
from cotenant.analyse.batching import Impact, advise
from cotenant.analyse.estimates.quantiles import interval_ranks, latency_quantiles, needed_for
from cotenant.analyse.judged_promises import judge_plan, judge_watched
from cotenant.analyse.result import Result, mostly_valid
from cotenant.analyse.sharing import slo
from cotenant.tenancy.interval import Estimate
from cotenant.tenancy.plan_document import PlanDocument
from cotenant.tenancy.records import TenantObservation, TokenTimes


@pytest.mark.parametrize(
    ("verdicts", "usable"),
    [
        ({"valid": 5, "unstable": 5}, True), ({"valid": 4, "unstable": 3, "invalid": 2}, False),
        ({"unstable": 1}, False), ({}, False), ({"valid": 1}, True),
    ],
)  # fmt: skip
def test_a_run_is_usable_if_half_of_its_trials_are_valid(verdicts, usable):
    assert mostly_valid(verdicts) is usable


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ({"state": "failed", "why": "no room"}, "This run failed before its first trial was complete: no room."),
        ({"state": "failed"}, "This run failed before its first trial was complete."),
        ({"state": "running", "why": "x"}, "This run has no trials yet."),
        ({"state": "stopped", "why": "by hand"}, "This run has no trials (by hand)."),
        ({"state": "stopped"}, "This run has no trials."),
    ],
)
def test_a_run_without_trials_says_why(manifest, said):
    assert result._without_trials(manifest) == said


PAIRS = "mixes: [solo, pairs]"


def shown(manifests, *mixes):
    summary = Facts(mixes=tuple(Facts(cell=Facts(solo=solo), trials_by_verdict=verdicts) for solo, verdicts in mixes))
    return Facts(manifests=manifests, mixes=summary.mixes, folder="runs/1")


@pytest.mark.parametrize(
    ("manifest", "more", "said"),
    [
        ({"state": "running", "study": PAIRS}, (), "has measured 3 trials of tenants alone"),
        ({"state": "stopped", "study": PAIRS}, (), "was stopped after 3 trials of tenants alone"),
        ({"state": "complete", "study": PAIRS}, (), None),
        ({"state": "running", "study": "mixes: [solo]"}, (), None),
        ({"state": "running", "study": "mixes: 3"}, (), None),
        ({"state": "running", "study": "- 1"}, (), None),
        ({"state": "running", "study": "{: }:"}, (), None),
        ({"state": "running"}, (), None),
        ({"state": "running", "study": PAIRS}, ((False, {"valid": 1}),), None),
    ],
)
def test_a_study_of_mixes_that_has_come_no_further_than_tenants_alone(manifest, more, said):
    found = Result.before_any_mix.func(
        shown((manifest,), (True, {"valid": 1, "unstable": 1}), (True, {"valid": 1}), *more)
    )
    assert (said in found) if said else found == ""
    several = shown((manifest, manifest), (True, {"valid": 1}))
    assert Result.before_any_mix.func(several) == "", "of several runs nothing is said"


# --- devices side by side


def choice(device, mix="a+b", *, load="closed(1)", settings="{}"):
    standings = [Facts(of=name) for name in mix.split("+")]
    cell = Facts(device=device, mix=mix, load=load, settings=settings, sharing="mps")
    return Facts(verdict="share", best=Facts(cell=cell, standings=standings, work=Estimate(1.5, None, None, 3)))


def beside(monkeypatch, *choices, manifests=(), alone=()):
    monkeypatch.setattr(
        result, "headline", lambda answer: [f"{len(answer.choices)} of {len(answer.missed_alone)}", "x"]
    )
    return result.side_by_side(Facts(choices=choices, missed_alone=alone), manifests)


def test_several_devices_have_a_sentence_each_in_the_order_of_the_runs(monkeypatch):
    alone = (Facts(under=("b",)), Facts(under=("a", "b")))
    manifests = [{"device": "b", "too_small_for": ["c + d don't fit."]}, {"device": "unused"}, {}]
    found = beside(monkeypatch, choice("a"), choice("b"), choice("b", "c+d"), manifests=manifests, alone=alone)
    assert found.devices == ("b", "a")
    assert found.said == ("On b: 2 of 2", "On a: 1 of 1")
    assert found.left_out == ("b: c + d don't fit.",)
    assert [(row.mix, row.under, [each and each.best.cell.device for each in row.choices]) for row in found.rows] == [
        ("a+b", "", ["b", "a"]), ("c+d", "", ["b", None]),
    ]  # fmt: skip
    said = found.to_json()["mixes"][1]
    assert (said["mix"], said["devices"]["a"]) == ("c+d", None)
    assert said["devices"]["b"]["verdict"] == "share"
    assert not found.regression
    assert beside(monkeypatch, choice("a"), choice("a", "c+d")) is None


def test_what_differs_between_cells_names_their_rows(monkeypatch):
    found = beside(monkeypatch, choice("a", load="poisson(1)"), choice("b", load="poisson(2)"))
    assert [row.under for row in found.rows] == ["poisson(1)", "poisson(2)"]


# --- promises


def plan(expected, **seats):
    tenants = {name: {"expected": expected, "runs": {"workload": "x"}, **seat} for name, seat in seats.items()}
    return PlanDocument.model_validate({"plan": 2, "devices": [{"name": "cpu", "tenants": tenants}]})


def seen(tenant="a", latency_ms=(), *, mix="a+b", tokens=None, verdict="valid", **more):
    latency = np.asarray(np.asarray(latency_ms) * 1e6, np.int64)
    return TenantObservation(
        **{
            "run": "run", "trial": 0, "block": 0, "mix": mix, "sharing": "processes", "settings": "{}",
            "load": "served", "device": "cpu", "simulated": False, "solo": "+" not in mix, "tenant": tenant,
            "of": tenant, "verdict": verdict, "failed_checks": ("x",) if verdict == "invalid" else (),
            "n": latency.size, "unfinished": 0, "throughput_rps": 1.0, "mean_latency_ns": 1.0, "window_s": 30.0,
            "latency_ns": latency, "token_times": tokens,
        } | more
    )  # fmt: skip


P50 = {"p50": {"limit_ms": 10.0}}


def test_a_request_that_takes_exactly_its_limit_is_in_time():
    [found] = judge_plan(plan(P50, a={}), [seen(latency_ms=[10.0] * 30 + [10.00001] * 30)], served=True)
    assert (found.in_time, found.requests) == (30, 60)


def test_requests_that_wait_for_their_batch_have_that_much_less_time():
    seat = {"at_once": 3, "rate_rps": 1000.0}  # the first of three waits 2 ms
    rows = [seen(latency_ms=[8.0] * 30 + [8.00001] * 30)]
    counts = [judge_plan(plan(P50, a=seat), rows, served=served)[0].in_time for served in (True, False)]
    assert counts == [60, 30]
    measured = judge_plan(plan(P50, a=seat), rows, served=False)[0].measured_ms.est
    assert measured == pytest.approx(10.0)


def test_of_the_mixes_with_a_tenant_the_largest_is_judged_and_of_equal_ones_the_first():
    rows = [
        seen(latency_ms=[1.0] * 3, mix="a+b"), seen(latency_ms=[1.0] * 5, mix="a+b+c"),
        seen(latency_ms=[1.0] * 7, mix="a+c+b"), seen(latency_ms=[1.0] * 9, mix="a"),
        seen("other", [1.0], mix="a+b+c+d"), seen(latency_ms=[1.0], mix="a+b+c+d", verdict="invalid"),
    ]  # fmt: skip
    [found] = judge_plan(plan(P50, a={}), rows, served=True)
    assert found.requests == 5
    assert judge_plan(plan(P50, b={}), rows, served=True) == ()


def test_tokens_have_times_of_their_own():
    both = {"ttft p50": {"limit_ms": 10.0}, "tpot p50": {"limit_ms": 1.0}}
    tokens = TokenTimes(np.array([10_000_000, 10_000_001, 1]), np.array([1_000_000, 1_000_001]))
    first, each = judge_plan(plan(both, a={}), [seen(latency_ms=[99.0] * 4, tokens=tokens)], served=True)
    assert (first.in_time, first.requests) == (2, 3)
    assert (each.in_time, each.requests) == (3, 4), "two have no second token"
    nothing = judge_plan(plan(both, a={}), [seen(latency_ms=[])], served=True)
    assert [row.requests for row in nothing] == [0, 0]


def watched(plan_limit_ms, *stretches):
    [found] = judge_watched(plan({"p50": {"limit_ms": plan_limit_ms}}, a={}, b={}), {"a": list(stretches)})
    return found


def test_buckets_decide_where_the_limit_lies_between_none():
    buckets = {0.1: 400.0, 0.2: 450.0, float("inf"): 500.0}
    assert watched(100.0, buckets).verdict == "kept"
    assert watched(150.0, buckets).verdict == "kept", "kept at the bound below it"
    few = {0.1: 100.0, 0.2: 400.0, float("inf"): 500.0}
    between = watched(150.0, few)
    assert (between.verdict, between.reason) == ("can't tell", "the limit lies between two buckets")
    assert watched(50.0, {0.1: 100.0, float("inf"): 500.0}).verdict == "missed"
    [token] = judge_watched(plan({"ttft p50": {"limit_ms": 5.0}}, a={}), {"a": [buckets]})
    assert (token.verdict, token.reason) == ("can't tell", "watched servers publish no such counts")


# --- objectives, quantiles and batches at their limits


@pytest.mark.parametrize(
    ("quantile", "late", "tolerance"), [(0.0, 0, 0.0), (1.0, 0, 0.0), (0.5, -1, 0.0), (0.5, 0, 0.5)]
)
def test_impossible_objectives_are_refused(quantile, late, tolerance):
    with pytest.raises(ValueError, match="between 0 and 1"):
        slo.queries_needed(quantile, late, 0.99, tolerance)


def test_a_tolerance_counts_as_a_lower_quantile():
    assert slo.queries_needed(0.9, 3, 0.99, 0.1) == slo.queries_needed(0.8, 3, 0.99)
    assert slo.queries_needed(0.5, 0, 0.5) == 1, "one of one in time shows a median with a confidence of one half"
    assert slo.queries_needed(0.5, 0, 0.75) == 2
    assert slo.queries_needed(0.5, 0, 0.76) == 3


@pytest.mark.parametrize(("metric", "prefix"), [("latency", ""), ("ttft", "TTFT of "), ("tpot", "TPOT of ")])
def test_what_an_objective_limits(metric, prefix):
    found = slo.attainment([9], [10], 0.5)
    assert slo.Attainment(found.share, 0.5, "met", None, metric).of_what == prefix


def test_attainment_needs_a_request_and_names_its_method():
    with pytest.raises(ValueError, match="at least one request"):
        slo.attainment([0], [0], 0.9)
    assert slo.attainment([9, 0], [10, 0], 0.5).share.method == "binomial"
    assert "design effect" in slo.attainment([100, 0] * 4, [100] * 8, 0.5).share.method


@pytest.mark.parametrize(("q", "n"), [(0.5, 6), (0.9, 29), (0.99, 299), (0.01, 299)])
def test_samples_that_a_quantile_needs(q, n):
    assert needed_for(q) == n
    assert q**n + (1 - q) ** n <= 0.05 < q ** (n - 1) + (1 - q) ** (n - 1)
    with pytest.raises(ValueError, match="can't enclose"):
        interval_ranks(n - 1, q)
    lo, hi = interval_ranks(n, q)
    assert (lo == 1) or (hi == n)
    for impossible in (0.0, 1.0):
        with pytest.raises(ValueError, match="between 0 and 1"):
            needed_for(impossible)


def test_quantiles_count_what_never_completed():
    values = np.arange(1, 11, dtype=np.int64) * 10
    found = latency_quantiles([values], [0.5], [0])[0.5]
    assert (found.est, found.n) == (50.0, 10)
    late = latency_quantiles([values], [0.5], [9])[0.5]
    assert (late.est, late.n, late.hi) == (100.0, 19, None), "the tenth of nineteen"
    lost = latency_quantiles([values], [0.5], [11])[0.5]
    assert (lost.est, lost.reason) == (None, "infinite: 11 of 21 requests never completed")
    few = latency_quantiles([values[:5]], [0.5, 0.99])
    assert [few[q].needs_n for q in (0.5, 0.99)] == [6, 299]


def impact(batch, rate, latency=1.0, **stages):
    return Impact(batch, Estimate(rate, None, None, 9), latency, stages)


def test_the_share_that_feeds_the_device():
    assert impact(1, 1.0).feeding_share == 0.0
    assert impact(1, 1.0, load_data=1.0, to_device=1.0, data_to_device=1.0, compute=3.0).feeding_share == 0.5
    assert impact(1, 1.0, compute=3.0).feeding_share == 0.0


@pytest.mark.parametrize(
    ("rates", "goal", "largest", "batch"),
    [
        ((95.0, 100.0, 90.0), None, None, 1), ((94.9, 100.0, 90.0), None, None, 2), ((50.0, 70.0, 100.0), 2.0, None, 2),
        ((50.0, 70.0, 100.0), None, 2, 2), ((50.0, 70.0, 100.0), 0.5, None, None), ((50.0, 70.0, 100.0), None, 0, None),
    ],
)  # fmt: skip
def test_the_smallest_batch_that_does_nearly_as_much(rates, goal, largest, batch):
    impacts = [impact(place, rate, float(place)) for place, rate in enumerate(rates, 1)]
    assert advise(impacts, latency_goal_ms=goal, largest=largest).batch == batch
