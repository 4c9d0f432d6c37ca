"""Watched runs read back, what trials started, and what verifying says, with figures by hand."""

import hashlib
import json
import shutil
from pathlib import Path
from types import SimpleNamespace as Facts

import duckdb
import pytest

from cotenant.errors import WatchError
from cotenant.store import watched
from cotenant.store.folder import RunFolder
from cotenant.store.reading import open_runs
from cotenant.store.verifying import Verified, digest_of_run, verify_run
from cotenant.store.watched import role_unit, sensor_name, traffic_of, watched_counts, watched_runs, watched_totals
from tests.store.synthetic import trial, unsealed

# --- totals of watched servers


def opened(samples=(), tenants=(), described=None, requests=(), study="watched"):
    con = duckdb.connect()
    con.execute("CREATE TABLE trials (run VARCHAR, trial INT, load VARCHAR, sharing VARCHAR)")
    con.execute("CREATE TABLE samples (run VARCHAR, trial INT, sensor VARCHAR, t_ns BIGINT, value DOUBLE)")
    con.execute('CREATE TABLE tenants (run VARCHAR, trial INT, tenant VARCHAR, facts VARCHAR, "of" VARCHAR, batch INT)')
    columns = "run VARCHAR, trial INT, tenant VARCHAR, intended_ns BIGINT, ok BOOL, device_ns INT"
    con.execute(f"CREATE TABLE requests ({columns})")
    trials = [
        ("r", 0, watched.WATCHED, "mps"),
        ("r", 1, watched.WATCHED, "mps"),
        ("q", 0, watched.WATCHED, "streams"),
        ("r", 2, "closed 1", "x"),
        ("s", 0, "served", "x"),
    ]
    for table, rows in (("trials", trials), ("samples", samples), ("tenants", tenants), ("requests", requests)):
        for row in rows:
            con.execute(f"INSERT INTO {table} VALUES ({', '.join('?' for _ in row)})", row)
    manifest = {"watched": {"tenants": described or {}}, "study_name": study, "device": "A100"}
    folder = Facts(path=Path("r"), manifest=manifest)
    return Facts(con=con, folders={"r": folder}, manifests=[manifest])


def reading(sensor, second, value, *, run="r", trial=0):
    return run, trial, sensor, int(second * 1e9), value


def with_buckets(trial, buckets, *, tenant="chat", run="r"):
    return run, trial, tenant, json.dumps({"buckets": buckets}), tenant, 1


def test_readings_of_a_tenant_come_together_in_order_of_time():
    runs = opened(
        [
            reading("requests[chat]", 3, 30.0, trial=1), reading("requests[chat]", 1, 10.0),
            reading("cpu_s[chat]", 1, 5.0), reading("requests[[b]]", 1, 1.0), reading("requests[a]", 1, 1.0),
            reading("requests[chat]", 9, 99.0, trial=2), reading("requests[chat]", 2, 77.0, run="q"),
        ],
        [
            with_buckets(0, {"latency": {"0.1": 3, "inf": 4}}),
            with_buckets(1, {"latency": {"0.1": 2}, "token": {"1": 1}}),
            with_buckets(0, None, tenant="a"),
        ],
        {"chat": {"software": "vllm", "facts": {"pid": 3}, "grants": [
            {"what": "cores", "by": "cgroup", "granted": 2.0, "got": 1.0, "unit": "cores"}]}, "[b]": {}},
    )  # fmt: skip
    chat, other, last = watched_totals(runs, "r")
    assert (chat.tenant, other.tenant, last.tenant) == ("chat", "[b]", "a"), "as they were named, then by name"
    assert (chat.totals["requests"].t_s.tolist(), chat.totals["requests"].value.tolist()) == ([1, 3], [10, 30])
    assert chat.totals["cpu_s"].value.tolist() == [5.0]
    assert chat.buckets == {"latency": {0.1: 5.0, float("inf"): 4.0}, "token": {1.0: 1.0}}
    assert (chat.software, chat.facts, chat.grants[0].granted) == ("vllm", {"pid": 3}, 2.0)
    assert (last.software, last.buckets, last.grants) == ("", {}, ())
    (every, *_) = watched_totals(runs)
    assert every.totals["requests"].t_s.tolist() == [1, 2, 3]
    assert watched_counts(runs) == {"chat": [{0.1: 3, float("inf"): 4}, {0.1: 2}]}


def test_names_and_units_of_totals():
    assert sensor_name("requests", "chat") == "requests[chat]"
    assert [role_unit(role) for role in ("cpu_s", "tokens_out", "requests")] == ["s", "tokens", "count"]


def test_each_run_by_itself():
    readings = [reading("requests[chat]", second, 10.0 * second) for second in range(0, 600, 5)]
    (found,) = watched_runs(opened(readings, described={"chat": {}}))
    assert (found.run, found.sharing, found.watched.device) == ("r", "mps", "A100")
    with pytest.raises(WatchError, match="nothing was watched"):
        watched_runs(opened())


def test_traffic_of_served_requests():
    def request(number, second, *, ok=True, device_ns=4_000_000, tenant="a"):
        return "s", 0, tenant, int(second * 1e9), ok, device_ns

    tenants = [("s", 0, "a", None, "a", 1), ("s", 0, "b", None, "b", 4), ("s", 0, "c", None, "c", 1)]
    times = [0.0, 1.0, 3.0, 4.0]
    requests = [request(number, second, ok=number != 3) for number, second in enumerate(times)]
    requests += [request(number, second, tenant="b") for number, second in enumerate(times)]
    requests += [request(0, 1.0, tenant="c")]
    found = traffic_of(opened(tenants=tenants, requests=requests, study="served"))
    assert sorted(found) == ["a", "b"], "one request has no rate"
    assert (found["a"].requests, found["a"].rate_rps) == (4, pytest.approx(0.75))
    assert found["a"].cv == pytest.approx((1 / 3) ** 0.5 / (4 / 3))
    assert (found["a"].served, found["a"].cost_s) == (3, pytest.approx(0.004))
    assert (found["b"].served, found["b"].cost_s) == (0, None)


# --- what a trial started


def copy(**more):
    row = {
        "block": 2, "mix": "m+m", "sharing": "mps", "failed_checks": None, "reasons": None, "window_s": 10.0,
        "error": None, "facts": None, "cpu_time_ns": 5_000_000_000, "peak_memory_bytes": 100,
    }  # fmt: skip
    return row | more


def test_copies_that_came_up():
    facts = json.dumps({"resolved": {"blocks": 3, "name": "x"}, "cache": {"bytes": 7.9}})
    found = watched._start([copy(facts=facts), copy()], 12.0)
    assert (found.block, found.copies, found.failed, found.died) == (2, 2, None, None)
    assert (found.cores, found.memory_bytes, found.resolved) == (1.0, 200, {"blocks": 3, "bytes": 7})
    assert (found.throughput_rps, found.failed_checks, found.reasons) == (12.0, (), ())
    unknown = watched._start([copy(), copy(cpu_time_ns=None, peak_memory_bytes=None)], None)
    assert (unknown.cores, unknown.memory_bytes) == (None, None)


def test_copies_that_did_not():
    absent = watched._start([copy(error="did not serve: no room"), copy(failed_checks=["tenants_alive"])], None)
    assert (absent.failed, absent.died) == ("no room", None)
    checks = ["tenants_alive", "steady"]
    died = watched._start([copy(failed_checks=checks, reasons=["why"], error="ended with 9")], 1.0)
    assert (died.failed, died.died, died.failed_checks, died.reasons) == (None, "ended with 9", tuple(checks), ("why",))
    assert watched._start([copy(failed_checks=["tenants_alive"])], 1.0).died == "a copy ended"
    assert watched._start([copy(failed_checks=["steady"], error="odd")], 1.0).died is None


# --- verifying


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ({}, "whole"),
        ({"unsealed": 1}, "unsealed"),
        ({"unsealed": 1, "incomplete": "gaps"}, "incomplete"),
        ({"incomplete": "gaps", "missing": 1}, "damaged"),
        ({"damaged": ("trial 1",)}, "damaged"),
    ],
)
def test_a_verified_run_in_a_word(facts, state):
    assert (
        Verified(**{"run": Path("r"), "trials": 3, "unsealed": 0, "damaged": (), "missing": 0} | facts).state == state
    )


def test_a_folder_that_is_no_run_is_damaged(tmp_path):
    found = verify_run(tmp_path / "nothing")
    assert (found.trials, found.unsealed, found.missing, found.state, len(found.damaged)) == (0, 0, 0, "damaged", 1)


def test_rows_of_another_trial_are_noticed_without_a_seal(tmp_path):
    folder = RunFolder.create(tmp_path / "run", {})
    for number in range(3):
        folder.commit(trial(number, requests=3))
    assert (verify_run(folder.path).trials, verify_run(folder.path).state) == (3, "whole")
    folder = unsealed(folder)
    sound = verify_run(folder.path)
    assert (sound.trials, sound.unsealed, sound.state) == (3, 3, "unsealed")
    shutil.copy(folder.trial_path(1) / "requests.parquet", folder.trial_path(2) / "requests.parquet")
    (sentence,) = verify_run(folder.path).damaged
    assert sentence.startswith("trial 2: ")
    assert "its rows are not those of the trial" in sentence


def test_the_digest_is_over_names_and_contents(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x").write_bytes(b"one")
    (tmp_path / "a").write_bytes(b"two")
    parts = "".join(
        f"{name}\0{hashlib.sha256(content).hexdigest()}\n" for name, content in (("a", b"two"), ("b/x", b"one"))
    )
    assert digest_of_run(tmp_path) == hashlib.sha256(parts.encode()).hexdigest()
    (tmp_path / "c").write_bytes(b"")
    assert digest_of_run(tmp_path) != hashlib.sha256(parts.encode()).hexdigest()


def test_a_start_has_what_all_its_copies_served(tmp_path):
    run = RunFolder.create(tmp_path / "r", {"run": "r"})
    run.commit(trial(0, tenants=("m#1", "m#2"), requests=4))
    run.commit(trial(1, tenants=("m#1", "m#2"), requests=3, verdict="invalid"))
    with open_runs([run.path]) as opened:
        first, second = watched.starts(opened)
    assert (first.throughput_rps, second.throughput_rps) == (pytest.approx(2000.0), None), "1 ms each"
