"""A promise is judged by the share of requests in time; the distance of the quantile from the plan's range is extra."""

import numpy as np
import pytest
from rich.console import Console

from cotenant.analyse.estimates.autocorrelation import Stretches
from cotenant.analyse.judged_promises import JudgedPromise, judge, judge_plan, promise_sentence
from cotenant.reporting.elements.terminal import to_terminal
from cotenant.reporting.results.promised import judged_elements
from cotenant.tenancy.interval import Interval
from cotenant.tenancy.objective import Objective
from cotenant.tenancy.plan_document import PlanDocument
from cotenant.tenancy.records import TenantObservation, TokenTimes

P99 = Objective("latency", 0.99, 60.0)


def blocks(*counts):
    return [Stretches(np.array([due]), np.array([met])) for met, due in counts]


def plan(expected=None, **seats):
    expected = expected or {"p99": {"limit_ms": 60.0, "lower_ms": 18.0, "estimate_ms": 24.0, "upper_ms": 31.0}}
    tenants = {name: {"expected": expected, "runs": {"workload": "x"}, **seat} for name, seat in seats.items()}
    return PlanDocument.model_validate({"plan": 2, "devices": [{"name": "cpu", "tenants": tenants}]})


def seen(tenant, latency_ms, *, trial=0, mix="search+photos", unfinished=0, tokens=None):
    latency = np.asarray(np.asarray(latency_ms) * 1e6, np.int64)
    return TenantObservation(
        run="run", trial=trial, block=trial, mix=mix, sharing="processes", settings="{}", load="served", device="cpu",
        simulated=False, solo="+" not in mix, tenant=tenant, of=tenant, verdict="valid", failed_checks=(),
        n=latency.size, unfinished=unfinished, throughput_rps=1.0, mean_latency_ns=1.0, window_s=30.0,
        latency_ns=latency, token_times=tokens,
    )  # fmt: skip


def test_717_permille_of_3437_requests_is_missed_however_bursty_they_were():
    bursts = [(290, 290)] * 8 + [(144, 367)] + [(0, 250)] * 3
    assert sum(due for _, due in bursts) == 3437
    found = judge("embedder", P99, blocks(*bursts))
    assert found.share.est == pytest.approx(0.717, abs=0.001)
    assert (found.verdict, found.more) == ("missed", None)


@pytest.mark.parametrize(("requests", "verdict", "more"), [(299, "kept", None), (298, "can't tell", 1)])
def test_all_of_299_requests_in_time_keep_a_p99(requests, verdict, more):
    found = judge("search", P99, blocks((requests, requests)))
    assert (found.verdict, found.more) == (verdict, more)


def test_undecided_promises_say_how_many_more_requests_decide():
    found = judge("search", P99, blocks((99, 100), (100, 100), (100, 100)))
    again = judge("search", P99, blocks(*[(99, 100), (100, 100), (100, 100)] * (1 + -(-found.more // 300))))
    assert found.verdict == "can't tell"
    assert again.verdict == "kept"
    assert judge("search", P99, ()).more == 299


def test_the_same_share_decides_less_when_late_requests_come_together():
    spread = judge("search", P99, blocks(*[(96, 100)] * 12))
    together = judge("search", P99, blocks(*[(100, 100)] * 11, (52, 100)))
    assert spread.share.est == together.share.est
    assert (spread.verdict, together.verdict) == ("missed", "can't tell")


def test_a_plan_is_judged_by_its_own_limits_in_the_largest_mix():
    rows = [
        seen("search", [24.0] * 400, mix="search"),
        seen("search", ([24.0] * 19 + [61.0]) * 20),
    ]
    [found] = judge_plan(plan(search={}), rows, served=True)
    assert (found.in_time, found.requests, found.verdict) == (380, 400, "missed")
    assert found.outside == pytest.approx(61 / 31 - 1)


def test_requests_that_were_not_served_are_not_in_time():
    [found] = judge_plan(plan(search={}), [seen("search", [20.0] * 300, unfinished=60)], served=True)
    assert (found.in_time, found.requests, found.verdict) == (300, 360, "missed")


def test_a_run_of_a_plan_gathers_batches_and_a_server_does_not():
    seat = {"at_once": 4, "rate_rps": 100.0}
    rows = [seen("search", [40.0] * 400)]
    assert [judge_plan(plan(search=seat), rows, served=served)[0].verdict for served in (True, False)] == [
        "kept", "missed"
    ]  # fmt: skip


def test_ttft_and_tpot_are_judged_each_by_its_own_limit():
    expected = {"ttft p95": {"limit_ms": 500.0}, "tpot p95": {"limit_ms": 60.0}}
    tokens = TokenTimes(np.full(100, 450_000_000), np.full(80, 70_000_000))
    ttft, tpot = judge_plan(plan(expected, chat={}), [seen("chat", [9000.0] * 100, tokens=tokens)], served=True)
    assert (ttft.objective, ttft.in_time, ttft.verdict) == ("ttft p95", 100, "kept")
    assert (tpot.objective, tpot.in_time, tpot.verdict) == ("tpot p95", 20, "missed"), "20 had a single token"


def test_tokens_that_were_not_counted_decide_nothing():
    expected = {"tpot p95": {"limit_ms": 60.0}}
    [found] = judge_plan(plan(expected, chat={}), [seen("chat", [9.0] * 100)], served=True)
    assert (found.verdict, found.more, found.reason) == ("can't tell", None, "tokens weren't counted")


@pytest.mark.parametrize(
    ("interval", "clearly"), [((20.0, 40.0), False), ((32.0, 50.0), True), ((32.0, None), True), ((None, None), False)]
)
def test_a_quantile_is_clearly_outside_only_if_its_whole_interval_is(interval, clearly):
    row = JudgedPromise(
        "search", "p99", 60.0, 0.99, 400, 400, Interval(1.0, 0.99, 1.0), "kept",
        expected_ms=Interval(25.0, 18.0, 31.0), measured_ms=Interval(40.0, *interval),
    )  # fmt: skip
    assert (row.outside, row.clearly_outside) == (pytest.approx(40 / 31 - 1), clearly)
    assert JudgedPromise.from_json(row.to_json()) == row


def test_the_answer_counts_and_names_and_the_table_fits_a_terminal():
    expected = {"limit_ms": 60.0, "lower_ms": 18.0, "estimate_ms": 24.0, "upper_ms": 31.0}
    mixed = "search+completions+recs"
    rows = judge_plan(
        plan({"p99": expected}, search={}, completions={}, recs={}),
        [
            seen("search", np.linspace(20, 30, 800), mix=mixed),
            seen("completions", ([20.0] * 7 + [80.0]) * 100, mix=mixed),
            seen("recs", [20.0] * 40, mix=mixed),
        ],
        served=True,
    )
    assert promise_sentence(rows) == "1 of 3 objectives kept; missed: completions; can't tell: recs"
    console = Console(width=80, record=True, file=None, quiet=False)
    with console.capture() as printed:
        for part in to_terminal(judged_elements(rows)):
            console.print(part)
    lines = [line.rstrip() for line in printed.get().splitlines()]
    assert "completions   p99 60.0   87 % of 800    missed       18.0-31.0   80.0 (+158 %)" in lines
    assert "recs p99: 259 more requests decide if as many are in time as so far" in lines


def test_each_undecided_objective_has_a_line_of_its_own():
    rows = judge_plan(plan(search={}, chat={}), [seen("search", [9.0] * 20), seen("chat", [9.0] * 20)], served=True)
    *_, notes = to_terminal(judged_elements(rows))
    assert [line.split()[0] for line in notes.plain.splitlines()] == ["search", "chat"]


def test_who_takes_requests_together_itself_is_asked_for_each():
    late = {"expected": {"p99": {"limit_ms": 60.0}}, "rate_rps": 10.0, "at_once": 4, "together": 4}
    singly = seen("search", [55.0] * 400)
    engine = {"workload": "llama-3.2-1b", "software": "vllm", "mode": "generate"}
    verdicts = {}
    for sharing, runs in (("processes", {"workload": "x"}), ("scheduled", {"workload": "x"}), ("processes", engine)):
        device = {"name": "gpu", "sharing": sharing, "tenants": {"search": {**late, "runs": runs}}}
        (row,) = judge_plan(PlanDocument.model_validate({"plan": 2, "devices": [device]}), [singly], served=False)
        verdicts[sharing, runs["workload"]] = row.verdict
    assert list(verdicts.values()) == ["missed", "kept", "kept"], "three more arrive in 300 ms"
