"""Observations: the definitions by example, then disk, memory and a naive computation agree on random input."""

import math
import tempfile
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.store.folder import RunFolder
from cotenant.store.observe import observations, observe_trial
from cotenant.store.reading import open_runs
from cotenant.tenancy.records import MISSING_NS, TenantObservation, TrialRecords
from tests.store.synthetic import WINDOW_START_NS, trial

MS = 1_000_000


def one(requests: list[tuple], load: str = "closed(1)", **tenant_facts) -> TenantObservation:
    """The observation of one tenant; a request is (intended, started, done, in_window, ok), times in ms."""
    [seen] = observe_trial(records_of({"a": requests}, load, **tenant_facts), "r", raw=True)
    return seen


def records_of(requests: dict[str, list[tuple]], load: str = "closed(1)", **tenant_facts) -> TrialRecords:
    rows = [(code, *row) for code, of_tenant in enumerate(requests.values()) for row in of_tenant]
    columns = list(zip(*rows, strict=True)) or [()] * 6

    def clock(values):
        return np.array([MISSING_NS if v is None else WINDOW_START_NS + v * MS for v in values], dtype=np.int64)

    return replace(
        trial(tenants=tuple(requests), load=load, tenant_facts=tenant_facts),
        requests={
            "tenant": np.array(columns[0], dtype=np.int64),
            "seq": np.arange(len(rows)),
            "intended_ns": clock(columns[1]),
            "started_ns": clock(columns[2]),
            "done_ns": clock(columns[3]),
            "device_ns": np.array([MISSING_NS if v is None else v for v in columns[3]], dtype=np.int64),
            "in_window": np.array(columns[4], dtype=bool),
            "ok": np.array(columns[5], dtype=bool),
        },
    )


class TestDefinitions:
    def test_latency_runs_from_when_the_request_was_due(self):
        seen = one([(0, 5, 10, True, True), (1, 10, 21, True, True)], load="poisson(2)")
        assert seen.latency_ns.tolist() == [10 * MS, 20 * MS]
        assert seen.latency_ns.dtype == np.int64
        assert seen.mean_latency_ns == 15 * MS

    def test_requests_outside_the_window_do_not_count(self):
        seen = one([(-9, -9, -1, False, True), (0, 0, 10, True, True), (999, 999, 1009, False, True)])
        assert (seen.n, seen.unfinished, seen.mean_latency_ns) == (1, 0, 10 * MS)

    def test_failed_and_never_done_requests_are_unfinished(self):
        seen = one([(0, 0, 10, True, True), (10, 10, 12, True, False), (12, 12, None, True, False)])
        assert (seen.n, seen.unfinished) == (1, 2)
        assert seen.latency_ns.tolist() == [10 * MS]

    def test_closed_throughput_is_over_the_time_the_requests_took(self):
        assert one([(100, 100, 200, True, True), (200, 200, 300, True, True)]).throughput_rps == pytest.approx(10)

    def test_a_tenant_that_hangs_does_not_become_faster(self):
        seen = one([(0, 0, 100, True, True), (100, 100, None, True, False)])
        assert seen.throughput_rps == pytest.approx(1)

    def test_open_throughput_is_over_the_window(self):
        seen = one([(100, 100, 200, True, True), (200, 200, 300, True, True)], load="poisson(2)")
        assert seen.throughput_rps == pytest.approx(2)

    def test_open_throughput_includes_time_after_the_window(self):
        seen = one([(0, 0, 1000, True, True), (1, 1000, 2000, True, True)], load="trace(a.csv, 2)")
        assert seen.throughput_rps == pytest.approx(1)

    def test_the_tenants_own_load_decides_and_not_the_mixs(self):
        records = trial(tenants=("a",), requests=1, load="mixed", tenant_facts={"load": "closed(4)"})
        [seen] = observe_trial(records, "r")
        assert (seen.load, seen.throughput_rps) == ("mixed", pytest.approx(1000))

    def test_the_objective_counts_what_was_served_in_time(self):
        seen = one(
            [(0, 0, 10, True, True), (0, 10, 11, True, True), (0, 11, None, True, False)], slo_ms=10.0, slo_quantile=0.9
        )
        assert (seen.slo_met, seen.n + seen.unfinished, seen.slo_ms, seen.slo_quantile) == (1, 3, 10.0, 0.9)

    def test_without_an_objective_nothing_meets_it(self):
        assert one([(0, 0, 10, True, True)]).slo_met is None

    def test_a_tenant_that_served_nothing_is_still_seen(self):
        seen = one([], slo_ms=10.0)
        assert (seen.n, seen.unfinished, seen.throughput_rps, seen.slo_met) == (0, 0, 0.0, 0)
        assert math.isnan(seen.mean_latency_ns)
        assert seen.mean_device_ns is None
        assert seen.latency_ns.tolist() == []

    def test_device_time_is_none_where_it_was_not_measured(self):
        records = trial()
        requests = {name: values for name, values in records.requests.items() if name != "device_ns"}
        assert observe_trial(replace(records, requests=requests), "r")[0].mean_device_ns is None
        assert observe_trial(records, "r")[0].mean_device_ns == 900_000

    def test_facts_of_the_trial_are_included(self):
        records = trial(3, block=2, verdict="unstable", failed_checks=["drift"], simulated=True, settings='{"a": 1}')
        [seen, _] = observe_trial(records, "r")
        assert (seen.run, seen.trial, seen.block, seen.mix) == ("r", 3, 2, "bert-mini+gpt2-mini")
        assert (seen.verdict, seen.failed_checks, seen.simulated) == ("unstable", ("drift",), True)
        assert (seen.sharing, seen.settings, seen.solo, seen.of) == ("processes", '{"a": 1}', False, "bert-mini")

    def test_raw_latencies_are_kept_only_on_request(self):
        assert observe_trial(trial(), "r")[0].latency_ns is None


GENERATED = [  # due at 0; first token, done, tokens
    (20, 60, 5),  # 10 ms a token
    (20, 70, 3),  # 25 ms a token
    (50, 60, 2),  # late from the start
    (20, 20, 1),  # one token: no time per output token
    (None, 60, 5),  # no output before the end
]


def generated(**goals: float) -> TrialRecords:
    records = records_of({"a": [(0, 0, done, True, True) for _, done, _ in GENERATED]}, "poisson(5)", **goals)
    first = [MISSING_NS if first is None else WINDOW_START_NS + first * MS for first, _, _ in GENERATED]
    tokens = [tokens for _, _, tokens in GENERATED]
    return replace(
        records, requests={**records.requests, "first_ns": np.array(first), "tokens_out": np.array(tokens, np.int64)}
    )


@pytest.mark.parametrize(
    ("goals", "met", "all_met"),
    [
        ({"ttft_slo_ms": 30.0, "ttft_slo_quantile": 0.95}, {"ttft": 3}, 3),
        ({"tpot_slo_ms": 12.0, "tpot_slo_quantile": 0.5}, {"tpot": 3}, 3),
        (
            {"ttft_slo_ms": 30.0, "ttft_slo_quantile": 0.95, "tpot_slo_ms": 12.0, "tpot_slo_quantile": 0.5},
            {"ttft": 3, "tpot": 3},
            2,
        ),
        ({"slo_ms": 40.0, "ttft_slo_ms": 30.0, "ttft_slo_quantile": 0.9}, {"ttft": 3}, 1),
    ],
)
def test_objectives_of_generation_count_requests_on_disk_and_in_memory(tmp_path, goals, met, all_met):
    records = generated(**goals)
    run = RunFolder.create(tmp_path / "run", {"run": "r"})
    run.commit(records)
    with open_runs([run.path]) as runs:
        [from_disk] = observations(runs, raw=True)
    [in_memory] = observe_trial(records, "r", raw=True)
    assert comparable(from_disk) == comparable(in_memory)
    assert {goal.metric: goal.met for goal in in_memory.token_goals} == met
    assert in_memory.all_met == all_met
    assert in_memory.token_times.ttft_ns.tolist() == [20 * MS, 20 * MS, 50 * MS, 20 * MS]
    assert in_memory.token_times.tpot_ns.tolist() == [10 * MS, 25 * MS, 10 * MS]
    assert in_memory.tokens_out == 16


def test_the_trials_of_a_cell_come_one_after_another(tmp_path):
    paths = []
    for name in ("x", "y"):
        run = RunFolder.create(tmp_path / name, {"run": name})
        for number in range(6):
            run.commit(
                trial(
                    number,
                    tenants=("a",) if number % 3 == 0 else ("a", "b#1", "b#2"),
                    sharing="threads" if number % 3 == 1 else "processes",
                    load="closed(1)" if number < 3 else "poisson(5)",
                )
            )
        paths.append(run.path)
    for raw in (False, True):
        with open_runs(paths) as runs:
            seen = list(observations(runs, raw=raw))
        assert len(seen) == 2 * 2 * (1 + 3 + 3)

        def cell(o):
            return (o.device, o.mix, o.sharing, o.settings, o.load, o.of, o.tenant)

        cells = [key for key, _ in groupby(seen, key=cell)]
        assert len(cells) == len(set(cells))
        assert all((o.latency_ns is not None) == raw for o in seen)


times = st.one_of(st.none(), st.integers(0, 1500))
requests = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(0, 1000), times, st.booleans(), st.booleans()), max_size=12
)
mixes = st.dictionaries(st.sampled_from(["a", "b#1", "b#2", "it's"]), requests, min_size=1, max_size=3)


def by_hand(rows: list[tuple], *, closed: bool, slo_ms: float | None) -> dict:
    """A naive implementation of the definitions."""
    due = [(i, s, d, ok) for i, s, d, in_window, ok in rows if in_window]
    served = [(i, d) for i, s, d, ok in due if ok and d is not None]
    latencies = [(d - i) * MS for i, d in served]
    ends = [d for _, _, d, _ in due if d is not None]
    if not served:
        rps = 0.0
    else:
        hung = len(ends) < len(due)
        begin = min(s for _, s, _, _ in due) if closed else 0
        end = max(ends) if closed and not hung else max(*ends, 1000)
        rps = len(served) / (end - begin) * 1000 if end > begin else math.nan
    return {
        "n": len(served),
        "unfinished": len(due) - len(served),
        "latencies": latencies,
        "mean": sum(latencies) / len(latencies) if latencies else math.nan,
        "rps": rps,
        "slo_met": None if slo_ms is None else sum(latency <= slo_ms * 1e6 for latency in latencies),
    }


@settings(max_examples=20, deadline=None, derandomize=True)
@given(mix=mixes, load=st.sampled_from(["closed(2)", "poisson(3)"]), slo_ms=st.sampled_from([None, 300.0]))
def test_disk_memory_and_naive_computation_agree(mix, load, slo_ms):
    records = records_of(mix, load, slo_ms=slo_ms)
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder, "run"), {"run": "r"})
        run.commit(records)
        with open_runs([run.path]) as runs:
            from_disk, without_raw = (list(observations(runs, raw=raw)) for raw in (True, False))
    in_memory = observe_trial(records, "r", raw=True)
    assert list(map(comparable, from_disk)) == list(map(comparable, in_memory))
    light = [replace(seen, latency_ns=None, token_times=None) for seen in from_disk]
    assert list(map(comparable, light)) == list(map(comparable, without_raw))
    assert {seen.tenant for seen in from_disk} == set(mix)
    for seen in from_disk:
        expected = by_hand(mix[seen.tenant], closed=load.startswith("closed"), slo_ms=slo_ms)
        assert seen.latency_ns.tolist() == expected["latencies"]
        assert (seen.n, seen.unfinished, seen.slo_met) == (
            expected["n"],
            expected["unfinished"],
            expected["slo_met"],
        )
        assert seen.mean_latency_ns == pytest.approx(expected["mean"], nan_ok=True)
        assert seen.throughput_rps == pytest.approx(expected["rps"], nan_ok=True)


def comparable(seen: TenantObservation) -> dict:
    """Every field exactly; NaN equals itself here."""
    fields = asdict(seen)
    fields["latency_ns"] = None if seen.latency_ns is None else seen.latency_ns.tolist()
    return {name: repr(value) for name, value in fields.items()}
