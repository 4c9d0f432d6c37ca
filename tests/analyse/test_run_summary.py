import json
from dataclasses import replace

import numpy as np
import pytest

from cotenant.analyse.sharing.slowdown import RunningSlowdowns
from cotenant.analyse.sharing.summarise import summarise
from cotenant.tenancy.interval import Estimate
from cotenant.tenancy.records import TokenGoal


def pair(run, factor=1.6):
    run.trials("a", "alone", {"a": 10})
    run.trials("b", "alone", {"b": 20})
    return run.trials("a+b", "processes", {"a": 10 * factor, "b": 20 * factor})


def only(rows, **wanted):
    found = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    assert len(found) == 1
    return found[0]


def slowdowns_so_far(observations):
    running = RunningSlowdowns()
    running.add(observations)
    return running.current()


def test_the_documented_shape(synthetic_run):
    document = summarise(pair(synthetic_run()).observations).to_json()
    assert document["schema_version"] == 1
    tenant = only(document["tenants"], mix="a+b", sharing="processes", tenant="a")
    for number in (tenant["throughput_rps"], tenant["slowdown"], *tenant["latency_ms"].values()):
        assert {"est", "lo", "hi", "n"} <= set(number)
    assert list(tenant["latency_ms"]) == ["p50", "p90", "p95", "p99", "mean"]
    mix = only(document["mixes"], mix="a+b", sharing="processes")
    for name in ("stp", "antt", "jain", "fairness", "harmonic_speedup"):
        assert mix[name]["lo"] <= mix[name]["est"] <= mix[name]["hi"]
    assert (mix["verdict"], mix["failed_checks"]) == ("valid", [])


def test_known_truth_is_enclosed(synthetic_run):
    document = summarise(pair(synthetic_run(seed=3)).observations).to_json()
    tenant = only(document["tenants"], mix="a+b", tenant="b")
    for number, truth in [
        (tenant["slowdown"], 1.6),
        (tenant["device_slowdown"], 1.6),
        (tenant["throughput_rps"], 1000 / 32),
        (tenant["latency_ms"]["mean"], 32),
        (only(document["mixes"], mix="a+b")["stp"], 2 / 1.6),
        (only(document["mixes"], mix="a+b")["antt"], 1.6),
    ]:
        assert number["lo"] <= truth <= number["hi"]


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_a_drift_of_five_per_cent_neither_is_an_effect_nor_hides_one(synthetic_run, factor):
    covered = []
    for seed in range(150):
        run = pair(synthetic_run(seed=seed, drift=0.05, requests=50, blocks=5), factor)
        covered += [row.estimate.lo <= factor <= row.estimate.hi for row in slowdowns_so_far(run.observations)]
    assert 0.92 <= np.mean(covered) <= 0.98


def test_solo_rows_are_their_own_reference(synthetic_run):
    document = summarise(pair(synthetic_run()).observations).to_json()
    alone = only(document["tenants"], mix="a", solo=True)
    assert (alone["slowdown"]["est"], alone["slowdown"]["method"]) == (1.0, "by definition")


def test_copies_are_compared_with_the_solo_of_what_they_copy(synthetic_run):
    run = synthetic_run().trials("a", "alone", {"a": 10}).trials("2 x a", "processes", {"a#1": 20, "a#2": 20})
    rows = summarise(run.observations).to_json()["tenants"]
    assert only(rows, tenant="a#2")["slowdown"]["est"] == pytest.approx(2, rel=0.02)


def test_solo_trials_of_other_blocks_settings_loads_or_runs_are_ignored(synthetic_run):
    shared = [row for row in pair(synthetic_run()).observations if not row.solo]
    solo = [row for row in pair(synthetic_run()).observations if row.solo]
    for change in ({"settings": '{"clock": 1}'}, {"load": "poisson(5)"}, {"run": "other"}, {"device": "cuda:0"}):
        summary = summarise([*shared, *(replace(row, **change) for row in solo)])
        rows = summary.to_json()["tenants"]
        row = only(rows, mix="a+b", tenant="a")
        assert row["slowdown"]["est"] is None
        assert "solo" in row["slowdown"]["reason"]
        assert row["throughput_rps"]["est"] is not None
    moved = [replace(row, block=row.block + 100) for row in solo]
    assert slowdowns_so_far([*shared, *moved]) == []


def test_blocks_where_one_side_is_invalid_are_left_out(synthetic_run):
    run = synthetic_run()
    run.trials("a", "alone", {"a": 10}, verdicts=["invalid"])
    run.trials("b", "alone", {"b": 20})
    run.trials("a+b", "processes", {"a": 16, "b": 32}, verdicts=["valid", "invalid", "unstable"])
    document = summarise(run.observations).to_json()
    row = only(document["tenants"], mix="a+b", tenant="a")
    assert row["slowdown"]["n"] == 4
    assert row["throughput_rps"]["n"] == 5
    assert row["trials_by_verdict"] == {"valid": 4, "invalid": 1, "unstable": 1}
    mix = only(document["mixes"], mix="a+b")
    assert (mix["verdict"], mix["failed_checks"], mix["blocks"]) == ("unstable", ["clock-steady"], 4)
    assert mix["trials_by_failed_check"] == {"clock-steady": 2}


def test_a_cell_without_a_usable_trial_is_listed_with_reasons(synthetic_run):
    run = synthetic_run().trials("a", "alone", {"a": 10})
    run.trials("a+b", "mps", {"a": 16, "b": 20}, verdicts=["invalid"] * 6)
    document = summarise(run.observations).to_json()
    row = only(document["tenants"], mix="a+b", tenant="a")
    for number in (row["slowdown"], row["throughput_rps"], row["latency_ms"]["mean"]):
        assert (number["est"], number["reason"]) == (None, "no usable trial")
    mix = only(document["mixes"], mix="a+b")
    assert (mix["verdict"], mix["stp"]["est"], mix["failed_checks"]) == ("invalid", None, ["clock-steady"])


def test_a_refused_quantile_says_how_many_requests_and_seconds_it_needs(synthetic_run):
    run = synthetic_run(blocks=3, requests=40).trials("a", "alone", {"a": 10})
    latency = only(summarise(run.observations).to_json()["tenants"], tenant="a")["latency_ms"]
    assert latency["p50"]["est"] == pytest.approx(10, rel=0.1)
    assert {key: latency["p99"][key] for key in ("est", "lo", "hi", "n", "needs_n")} == {
        "est": None,
        "lo": None,
        "hi": None,
        "n": 120,
        "needs_n": 299,
    }
    assert latency["p99"]["needs_seconds"] == pytest.approx(1.79, rel=0.05)


def test_unfinished_requests_reach_the_tail_and_mark_the_slowdown(synthetic_run):
    run = synthetic_run().trials("a", "alone", {"a": 10}).trials("b", "alone", {"b": 10})
    run.trials("a+b", "processes", {"a": 20, "b": 20}, unfinished=40)
    row = only(summarise(run.observations).to_json()["tenants"], mix="a+b", tenant="a")
    assert row["latency_ms"]["p50"]["est"] is not None
    assert row["latency_ms"]["p99"]["est"] is None
    assert "never completed" in row["latency_ms"]["p99"]["reason"]
    assert row["slowdown_is_least"] is True


def test_objectives(synthetic_run):
    run = synthetic_run().trials("a", "alone", {"a": 10}, slo_ms=15).trials("b", "alone", {"b": 10})
    rows = summarise(run.observations).to_json()["tenants"]
    slo = only(rows, tenant="a")["slo"]
    assert (slo["answer"], slo["objective_ms"], slo["quantile"]) == ("met", 15, 0.9)
    assert slo["attainment"]["est"] > 0.98
    assert slo["goodput_rps"]["est"] == pytest.approx(100, rel=0.05)
    assert only(rows, tenant="b")["slo"] is None


def test_the_objective_that_is_missed_decides_and_goodput_keeps_all(synthetic_run):
    run = synthetic_run().trials("a", "alone", {"a": 10}, slo_ms=15)
    kept = [
        replace(
            seen,
            token_goals=(TokenGoal("ttft", 5.0, 0.95, seen.n), TokenGoal("tpot", 2.0, 0.95, seen.n // 2)),
            all_met=seen.n // 2,
        )
        for seen in run.observations
    ]
    [row] = summarise(kept).to_json()["tenants"]
    assert (row["slo"]["metric"], row["slo"]["objective_ms"], row["slo"]["answer"]) == ("tpot", 2.0, "missed")
    assert [(one["metric"], one["answer"]) for one in row["slo"]["objectives"]] == [
        ("latency", "met"),
        ("ttft", "met"),
        ("tpot", "missed"),
    ]
    assert row["slo"]["goodput_rps"]["est"] == pytest.approx(50, rel=0.05)


def test_a_tenant_without_requests_still_gives_valid_json(synthetic_run):
    run = synthetic_run(requests=0).trials("a", "alone", {"a": 10}).trials("a+b", "processes", {"a": 10, "b": 10})
    text = json.dumps(summarise(run.observations).to_json(), allow_nan=False)
    assert "NaN" not in text


def test_nothing_gives_an_empty_summary():
    assert summarise([]).to_json() == {
        "schema_version": 1,
        "tenants": [],
        "mixes": [],
        "block_seconds": {},
        "accuracy": {},
        "short_windows": None,
        "doubts": [],
    }


def test_calibration_trials_are_not_results(synthetic_run):
    run = pair(synthetic_run())
    calibration = [replace(row, block=-1, mean_latency_ns=1.0) for row in run.observations if row.solo]
    assert summarise([*calibration, *run.observations]).to_json() == summarise(run.observations).to_json()


def test_raw_latencies_are_released_as_they_pass(synthetic_run):
    import weakref

    rows = pair(synthetic_run(blocks=2)).observations
    alive = []

    def stream():
        while rows:
            row = rows.pop(0)
            alive.append(weakref.ref(row.latency_ns))
            yield row
            del row
            assert sum(ref() is not None for ref in alive[:-1]) <= 2 + len(rows)

    summarise(stream())
    assert all(ref() is None for ref in alive)


def test_a_tenants_observations_must_be_consecutive(synthetic_run):
    rows = pair(synthetic_run()).observations
    with pytest.raises(ValueError, match="not consecutive"):
        summarise([rows[0], rows[-1], rows[1]])


def test_means_are_enough_for_current_slowdowns(synthetic_run):
    run = synthetic_run(blocks=1)
    run.trials("a", "alone", {"a": 10}, raw=False).trials("b", "alone", {"b": 10}, raw=False)
    run.trials("a+b", "threads", {"a": 20, "b": 10}, raw=False)
    first, second = slowdowns_so_far(run.observations)
    mix, sharing, load, tenant, estimate = first
    assert (mix, sharing, load, tenant) == ("a+b", "threads", "closed(1)", "a")
    assert isinstance(estimate, Estimate)
    assert estimate.est == pytest.approx(2, rel=0.1)
    assert estimate.lo is None
    assert second.estimate.est == pytest.approx(1, rel=0.1)


def test_order_of_cells_does_not_matter(synthetic_run):
    rows = pair(synthetic_run()).observations
    groups = [[row for row in rows if (row.mix, row.tenant) == key] for key in {(r.mix, r.tenant): 0 for r in rows}]
    backwards = [row for group in reversed(groups) for row in group]
    assert summarise(backwards).to_json() == summarise(rows).to_json()
