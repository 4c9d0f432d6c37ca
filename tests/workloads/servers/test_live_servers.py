"""Complete runs with servers that compute: our own, and `transformers serve` beside a FastAPI application."""

import json
import sys
from pathlib import Path

import psutil
import pytest

from cotenant import run
from cotenant.cli.main import main
from cotenant.store.reading import open_runs
from cotenant.study.files import study_from
from cotenant.workloads.servers.process import ServerProcess
from cotenant.workloads.servers.spec import ServerSpec
from tests.serving.backends.behind import fronting
from tests.serving.backends.behind import run as run_loop
from tests.support.elsewhere import interpreter

pytestmark = pytest.mark.slow

PEERS = Path(__file__).with_name("peers")
SHORT = {"blocks": 1, "window": "600ms", "lead": "100ms", "alone_stopped": False}


def measured(folder, tenants, query, **study):
    """Rows of a short run, after checking that its servers are gone."""
    run(study_from({**SHORT, "tenants": tenants, **study}), out=folder)
    with open_runs([path.parent for path in folder.rglob("manifest.json")]) as runs:
        found = runs.con.execute(query).fetchall()
        started = runs.con.execute("SELECT DISTINCT facts->>'$.server_pid' FROM tenants").fetchall()
    pids = [int(pid) for (pid,) in started if pid is not None]
    assert len(pids) >= len(tenants)
    assert not [pid for pid in pids if psutil.pid_exists(pid)]
    return found


def serving_one(folder, name, **tenant):
    """`cotenant serve` with one tenant, as `server:` of a study."""
    file = folder / f"{name}.yaml"
    file.write_text(json.dumps({"threads": 1, "tenants": {name: {"slo": "60s", **tenant}}}))
    start = f"{sys.executable} -m cotenant.cli.main serve {file} --port {{port}}"
    return {"start": start, "ready": "/v2/health/ready", "warm": 1}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A small model that servers load, and an interpreter with `transformers serve`."""
    python = interpreter("fastapi", "COTENANT_TRANSFORMERS")
    folder = tmp_path_factory.mktemp("exported") / "model"
    assert main(["workloads", "export", "llama-3.2-1b-mini", str(folder)]) == 0
    return python, folder


def transformers_serve(model):
    """It needs a network to list its models, and may end an answer early."""
    python, folder = model
    start = f"{python} -m transformers.cli.transformers serve {folder} --host 127.0.0.1 --port {{port}}"
    return {"start": start, "env": {"HF_HUB_OFFLINE": "1"}}


def test_our_own_server_is_measured_token_by_token_beside_another(tmp_path):
    chat = {
        "workload": "openai:",
        "server": serving_one(tmp_path, "gpt", workload="distilgpt2-mini", seq=8, mode="generate", tokens=6),
        "seq": 8,
        "tokens": 6,
        "load": "closed(2)",
    }
    infer = {
        "workload": "v2:",
        "server": serving_one(tmp_path, "bert", workload="bert-base-mini", seq=8),
        "params": {"model": "bert"},
        "load": "closed(1)",
    }
    rows = measured(
        tmp_path,
        {"chat": chat, "infer": infer},
        """SELECT tenant, count(*), count(DISTINCT mix), min(tokens_out), max(tokens_out), min(tokens_in),
        count(*) FILTER (intended_ns <= started_ns AND started_ns < first_ns AND first_ns <= done_ns),
        min(coalesce(timed, 0)) FROM requests JOIN trials USING (run, trial) LEFT JOIN (
        SELECT run, trial, tenant, seq, count(*) AS timed FROM stages WHERE stage = 'token' GROUP BY ALL)
        USING (run, trial, tenant, seq) WHERE ok AND block >= 0 GROUP BY tenant""",
    )
    found = {tenant: figures for tenant, *figures in rows}
    served, mixes, fewest, most, prompt, in_order, further_pieces = found["chat"]
    assert (mixes, fewest, most, in_order) == (2, 6, 6, served)
    assert further_pieces >= 1  # the first token does not wait for the last
    assert prompt >= 8
    assert found["infer"][1:4] == [2, None, None]


def test_transformers_serve_is_measured_beside_a_fastapi_application(tmp_path, model):
    (tmp_path / "body.json").write_text(json.dumps({"numbers": [1.0, 2.0]}))
    tenants = {
        "chat": {
            "workload": "openai:",
            "server": transformers_serve(model),
            "seq": 8,
            "tokens": 4,
            "load": "closed(2)",
            "params": {"model": str(model[1]), "fixed_length": False},
        },
        "app": {
            "workload": "http:/predict",
            "server": {"start": f"{model[0]} {PEERS / 'fastapi_app.py'} {{port}}"},
            "params": {"body_file": str(tmp_path / "body.json")},
            "load": "closed(1)",
        },
    }
    rows = measured(
        tmp_path,
        tenants,
        """SELECT tenant, bool_and(ok), count(DISTINCT mix), count(first_ns) = count(*), max(tokens_out)
        FROM requests JOIN trials USING (run, trial) WHERE block >= 0 GROUP BY tenant""",
    )
    assert {tenant: figures for tenant, *figures in rows} == {
        "chat": [True, 2, True, 4],
        "app": [True, 2, True, None],
    }


def test_transformers_serve_answers_behind_our_admission(model):
    server = ServerProcess(ServerSpec.model_validate(transformers_serve(model)))
    asked = {"model": "llm", "messages": [{"role": "user", "content": "time year"}], "max_tokens": 4, "stream": True}

    async def scenario():
        backend = {"openai": server.address.name, "model": str(model[1])}
        async with fronting({"llm": {"slo": "60s", "tokens": 4, "backend": backend}}) as client:
            answer = await client.post("/v1/chat/completions", asked)
            wrong = await client.post("/v1/chat/completions", {**asked, "no_such_field": 1})
            return answer, wrong, client.service.measures.of("llm")

    try:
        server.wait_until_ready()
        answer, wrong, counted = run_loop(scenario)
    finally:
        server.stop()
    assert answer.status == 200
    chunks = [json.loads(event) for event in answer.events() if event != "[DONE]"]
    said = [choice["delta"].get("content") for chunk in chunks for choice in chunk["choices"]]
    assert 1 <= sum(bool(text) for text in said) <= 4
    assert (wrong.status, "no_such_field" in wrong.body.decode()) == (422, True)
    assert counted.generation.first_s.count == 1
