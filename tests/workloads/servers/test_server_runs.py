"""Complete runs with servers as tenants: requests at the server, records, and failures."""

import sys

import psutil
import pytest

from cotenant import run
from cotenant.errors import CotenantError, TenantFailed
from cotenant.store.reading import open_runs
from cotenant.store.reduced import Reduced
from cotenant.study.files import study_from

pytestmark = pytest.mark.slow

SCRIPTED = f"{sys.executable} -m cotenant.workloads.servers.scripted --port {{port}} --ttft 0.01 --itl 0.002"


def carry_out(tmp_path, tenants, **study):
    """The run of a study in one short block."""
    whole = {"mixes": ["solo"], "blocks": 1, "window": "500ms", "lead": "100ms", "tenants": tenants, **study}
    return run(study_from(whole), out=tmp_path)


def rows(tmp_path, query):
    [folder] = [path.parent for path in tmp_path.rglob("manifest.json")]
    with open_runs([folder]) as runs:
        return runs.con.execute(query).fetchall()


def spent_in_stages(tmp_path, tenant):
    """Mean milliseconds of the tenant's requests in each stage, alone."""
    [folder] = [path.parent for path in tmp_path.rglob("manifest.json")]
    with open_runs([folder]) as runs:
        return {one.stage: one.mean_ms for one in Reduced(runs).stages() if one.cell.mix == one.tenant == tenant}


def test_the_server_gets_as_many_concurrent_requests_as_the_load_says(tmp_path, scripted):
    server = scripted("--sleep", "0.2")
    carry_out(tmp_path, {"sleepy": {"workload": f"{server.address}/sleep", "load": "closed(8)"}})
    assert server.get("/stats")["most_under_way"] == 8
    [(pids,)] = rows(tmp_path, "SELECT DISTINCT observed->'$.server_pids[*]' FROM tenants WHERE tenant = 'sleepy'")
    assert [int(pid) for pid in pids] == [server.process.pid]  # its use counts for the tenant, not as foreign load


def test_the_metrics_of_a_running_server_are_read_where_the_tenant_says(tmp_path, scripted):
    server, elsewhere = scripted("--sleep", "0.01"), scripted()
    asked = {"workload": f"{server.address}/sleep", "load": "closed(1)"}
    metrics = {"server": {"metrics": f"{elsewhere.address}/metrics"}}
    carry_out(tmp_path, {"told": {**asked, **metrics}, "left": asked})
    found = rows(tmp_path, "SELECT DISTINCT tenant, facts->>'$.metrics.url' FROM tenants ORDER BY ALL")
    assert found == [("left", None), ("null", None), ("told", f"{elsewhere.address}/metrics")]
    assert rows(tmp_path, "SELECT DISTINCT sensor FROM samples WHERE sensor LIKE 'server_running%'") == [
        ("server_running[told]",)
    ]


@pytest.mark.parametrize(
    ("server", "sentence"),
    [
        ({"metrics": "/nothing"}, "there are no metrics at `/nothing`"),
        (
            {"metrics": "/metrics", "warm": 3},
            "start is missing, such as serve --port {port}; a running server has metrics only",
        ),
        ({"metrics": "nonsense"}, "expected a path"),
    ],
)
def test_metrics_that_are_not_there_are_refused(tmp_path, scripted, server, sentence):
    running = scripted()
    with pytest.raises(CotenantError) as caught:
        carry_out(tmp_path, {"chat": {"workload": f"openai:{running.address}", "tokens": 2, "server": server}})
    assert sentence in str(caught.value)


def test_two_servers_are_started_measured_together_and_stopped(tmp_path):
    chat = {
        "workload": "openai:",
        "server": {"start": SCRIPTED, "warm": "2 requests"},
        "tokens": 8,
        "load": "closed(4)",
        "slo": {"ttft p95": "10s", "tpot p95": "1us"},
    }
    infer = {
        "workload": "v2:",
        "params": {"model": "scripted"},
        "server": {"start": f"{SCRIPTED} --sleep 0.02", "ready": "/v2/health/ready"},
        "load": "poisson(50)",
    }
    result = carry_out(tmp_path, {"chat": chat, "infer": infer}, mixes=["solo", "pairs"], window="1s")
    by_tenant = dict(
        rows(
            tmp_path,
            """SELECT tenant, [count(*), count(DISTINCT mix), min(tokens_out), max(tokens_out), count(first_ns),
            min((first_ns - started_ns) // 1000)] FROM requests JOIN trials USING (run, trial)
            WHERE ok AND block >= 0 GROUP BY tenant""",
        )
    )
    served, mixes, fewest, most, firsts, quickest_us = by_tenant["chat"]
    assert (mixes, fewest, most, firsts) == (2, 8, 8, served)
    assert quickest_us >= 10_000  # the role alone comes at once and is not a token
    assert by_tenant["infer"][:4] == [by_tenant["infer"][0], 2, None, None]
    [(tokens,)] = rows(tmp_path, "SELECT count(*) FROM stages WHERE tenant = 'chat' AND stage = 'token'")
    [(begun,)] = rows(tmp_path, "SELECT count(*) FROM requests WHERE tenant = 'chat' AND ok")
    assert tokens == 7 * begun
    parts = spent_in_stages(tmp_path, "chat")
    assert parts["token"] > 7 * 1.9  # all of a request's tokens, not one
    [(mean_ms,)] = rows(
        tmp_path,
        """SELECT avg(done_ns - started_ns) / 1e6 FROM requests JOIN trials USING (run, trial)
        WHERE in_window AND ok AND tenant = 'chat' AND mix = 'chat' AND block >= 0""",
    )
    assert sum(parts.values()) == pytest.approx(mean_ms, rel=0.01)
    [alone] = [row for row in result.summary.to_json()["tenants"] if row["tenant"] == "chat" and row["solo"]]
    first, between = alone["slo"]["objectives"]
    assert (first["metric"], first["attainment"]["est"]) == ("ttft", 1.0)
    # A client that was kept off its core reads several tokens at once, without any time between them.
    assert between["metric"] == "tpot"
    assert between["attainment"]["est"] < 0.5
    assert alone["slo"]["goodput_rps"]["est"] < 0.5 * alone["throughput_rps"]["est"]
    pids = [int(pid) for (pid,) in rows(tmp_path, "SELECT DISTINCT unnest(observed->'$.server_pids[*]') FROM tenants")]
    assert len(pids) >= 2
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_a_server_that_dies_midway_costs_only_its_own_trials(tmp_path):
    crowd = {"start": f"{SCRIPTED} --sleep 0.01 --fault crowd", "metrics": None}
    mortal = {"workload": "http:/sleep", "server": crowd}
    steady = {"workload": "http:/sleep", "server": {"start": f"{SCRIPTED} --sleep 0.01"}}
    carry_out(tmp_path, {"mortal": mortal, "steady": steady}, loads=["closed(4)"], blocks=2)
    found = dict(rows(tmp_path, "SELECT mix, list(verdict) FROM trials WHERE block >= 0 GROUP BY mix"))
    assert "invalid" in found["mortal"]
    assert "invalid" not in found["steady"]
    errors = [error for (error,) in rows(tmp_path, "SELECT error FROM tenants WHERE tenant = 'mortal'") if error]
    assert any("the server ended with exit code 3; its log ends: " in error for error in errors), errors
    assert any("out of patience, ending now" in error for error in errors)


@pytest.mark.parametrize(
    ("server", "sentence"),
    [
        ({"start": f"{SCRIPTED} --fault nonsense"}, "the server ended with exit code 2; its log ends: "),
        ({"start": SCRIPTED, "ready": "/nowhere", "ready_within_s": 10}, "it answered 404 at /nowhere; its log ends: "),
        ({"start": f"{SCRIPTED} --fault 500"}, "answered 500 Internal Server Error: "),
        ({"start": f"{SCRIPTED} --sleep 0 --fault die --after 1"}, "the server ended with exit code 3; its log ends: "),
    ],
)
def test_a_server_that_cannot_serve_is_reported_before_the_first_trial(tmp_path, server, sentence):
    with pytest.raises(TenantFailed, match=sentence):
        carry_out(tmp_path, {"a": {"workload": "http:/sleep", "server": server}})
