"""`scheduled` on a real device: a server of ours orders the requests, and its tenants are measured as its clients."""

import sys
from pathlib import Path

import numpy as np
import pytest

import cotenant
from cotenant.clients.address import read_address
from cotenant.devices import find_device
from cotenant.errors import SharingUnavailable
from cotenant.measure.gather import RequestColumns, SeatOutcome
from cotenant.measure.run_plan import plan_for
from cotenant.measure.tenants.messages import SeatResult
from cotenant.measure.tenants.ordered import OrderingServer, of_tenant
from cotenant.serving.tenants_file import read_tenants
from cotenant.store.reading import open_runs
from cotenant.study.files import study_from
from cotenant.tenancy.load import Load
from cotenant.tenancy.nouns import Tenant, Trial
from cotenant.tenancy.records import MISSING_NS
from cotenant.tenancy.sharing import Sharing
from cotenant.workloads import find
from cotenant.workloads.protocol import Properties, WorkloadSpec
from cotenant.workloads.servers import ServerProcess, ServerSpec, listening

SCRIPTED = f"{sys.executable} -m cotenant.workloads.servers.scripted --port {{port}} --sleep 0.002 --adapter writes"
PLAN = """
plan: 2
devices:
- name: cpu
  sharing: scheduled
  tenants:
    scripted:
      rate_rps: 60
      at_once: 4
      runs: {workload: resnet18-mini}
      expected: {p99: {limit_ms: 5000, upper_ms: 4000}}
    writes:
      rate_rps: 30
      share: 10
      runs: {workload: distilgpt2-mini, mode: generate, seq: 8, tokens: 4}
      expected: {ttft p95: {limit_ms: 5000, upper_ms: 4000}, tpot p95: {limit_ms: 2000, upper_ms: 1000}}
"""


class Scripted(ServerProcess):
    """A server that answers like ours, and computes nothing."""

    def __init__(self, spec):
        super().__init__(ServerSpec(start=SCRIPTED, ready="/v2/health/ready", env=spec.env))


def test_a_plan_with_a_server_is_measured_and_judged_and_the_server_is_gone(tmp_path, monkeypatch):
    monkeypatch.setattr("cotenant.measure.tenants.ordered.ServerProcess", Scripted)
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN)
    overrides = ["window=1s", "lead=100ms", "blocks=2", "until=null"]
    result = cotenant.run(plan, out=tmp_path / "runs", overrides=overrides, quiet=True)
    found = {tenant.tenant: tenant for tenant in result.summary.tenants if not tenant.cell.solo}
    assert {tenant.cell.sharing for tenant in found.values()} == {"scheduled"}
    [folder] = [path.parent for path in tmp_path.rglob("manifest.json")]
    with open_runs([folder]) as runs:
        rows = runs.con.execute(
            "SELECT DISTINCT tenant, workload, facts->>'$.address' FROM tenants WHERE tenant <> 'null'"
        ).fetchall()
    assert {name: workload for name, workload, _ in rows} == {
        "scripted": "resnet18-mini", "writes": "distilgpt2-mini"
    }  # fmt: skip
    addresses = {address for *_, address in rows} - {None}  # a tenant that runs alone asks no server
    assert len(addresses) == 1, "one server for all"
    assert all(tenant.requests > 20 and tenant.unfinished == 0 for tenant in found.values())
    assert not listening(read_address(addresses.pop())), "the server ends with the run"


def tenant(name, workload, **more):
    spec = WorkloadSpec(name=workload, **more.pop("spec", {}))
    return Tenant(name=name, of=name.partition("#")[0], workload=spec, load=Load(kind="poisson", rate_rps=1.0), **more)


class Listening:
    """A server process that only keeps the file it would serve."""

    def __init__(self, spec):
        words = spec.start.split()
        self.file = read_tenants(Path(words[2]))
        self.address = type("Address", (), {"name": "http://127.0.0.1:1"})
        self.pid, self.env = 7, spec.env

    def wait_until_ready(self):
        return 0.0

    def gone(self):
        return None

    def stop(self):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr("cotenant.measure.tenants.ordered.ServerProcess", Listening)
    slo = {"slo": {"p99": "50ms"}}
    tenants = [
        tenant("a", "bert-base-mini", at_once=4, spec={"batch": 2, "seq": 24}, priority=2, **slo),
        tenant("a#2", "bert-base-mini", share=25.0, hard=False, **slo),
        tenant("g", "distilgpt2-mini", spec={"mode": "generate", "seq": 8, "tokens": 4}, **slo),
    ]
    return OrderingServer("cpu", tenants, "mark"), tenants


def test_the_server_gets_the_tenants_as_they_are(server):
    ordering, tenants = server
    with ordering:
        file = ordering._process.file
        assert file.device == "cpu"
        assert not file.divided
        first, copy, writes = (file.tenants[name] for name in ("a", "a-2", "g"))
        assert (first.batch, first.seq, first.most_at_once, first.priority) == (2, 24, 4, 2)
        assert (copy.share, copy.hard, copy.slo) == (25.0, False, tenants[1].slo)
        assert (writes.mode, writes.seq, writes.tokens) == ("generate", 8, 4)
        assert ordering._process.env["COTENANT_TENANT"] == "mark", "what outlives the run is found by it"
    assert not ordering.stands()


def test_its_clients_ask_for_what_the_tenants_are_about(server):
    ordering, tenants = server
    asked = Trial(
        number=0, block=0, order=0, mix="all", tenants=tuple(tenants), sharing=Sharing(mode="scheduled"), load="x",
        window_s=1.0, lead_s=0.1, seed=0,
    )  # fmt: skip
    with ordering:
        clients = [client.workload for client in ordering.asked(asked).tenants]
    assert [client.name for client in clients] == [
        "v2:http://127.0.0.1:1", "v2:http://127.0.0.1:1", "openai:http://127.0.0.1:1"
    ]  # fmt: skip
    assert clients[0].params == {"model": "a", "shapes": {"input_ids": [2, 24]}}
    assert clients[1].params["model"] == "a-2"
    assert (clients[2].seq, clients[2].tokens, clients[2].params["api"]) == (8, 4, "completions")


@pytest.mark.parametrize(
    ("name", "options", "asked"),
    [
        ("dlrm-mini", {"batch": 2, "params": {"lookups": 3}}, {"largest": 3, "shapes": {"categories": [26, 2, 3]}}),
        ("resnet18-mini", {}, {}),
        ("pegasus-x-base-mini", {"seq": 300}, {"shapes": {"input_ids": [1, 300], "decoder_input_ids": [1, 128]}}),
    ],
)
def test_a_model_says_what_metadata_leaves_open(name, options, asked):
    assert find(name).inputs_asked(WorkloadSpec(name=name, **options)) == asked


def test_a_server_that_can_t_serve_says_why():
    with pytest.raises(SharingUnavailable, match="can't order the requests of a: the server ended with exit code 1"):
        OrderingServer("cpu", [tenant("a", "null", slo={"p99": "1ms"})], "none").__enter__()


def test_a_cpu_takes_it_for_a_way_to_share():
    entry = {"workload": "bert-base-mini", "rate": "5/s", "slo": "1s"}
    study = study_from({"name": "t", "device": "cpu", "sharing": ["scheduled"], "tenants": {"a": entry, "b": entry}})
    plan = plan_for(study, find_device("cpu"))
    assert "scheduled" in {trial.sharing.mode for trial in plan.block(0).trials}
    assert plan.left_out == ()


def test_what_the_server_refuses_has_no_end():
    def column(*values):
        return np.array(values, np.int64)

    kinds = column(-1, 0, 1)
    requests = RequestColumns(
        intended=column(1, 2, 3), started=column(1, 2, 3), first=column(4, 5, 6), done=column(4, 5, 6),
        device=column(1, 1, 1), ok=column(1, 0, 0), slot_ends=np.empty((0, 3), np.int64), answers={"kind": kinds},
    )  # fmt: skip
    result = SeatResult(
        window=0, index=0, recorded=3, errors=2, error="busy", out_of_memory=False, overflowed=False,
        stopped_early=False, cpu_time_ns=1, switches_voluntary=0, switches_forced=0, memory_bytes=1, observed={},
        kinds=("http 503", "http 500"),
    )  # fmt: skip
    asked, own = tenant("a", "v2:http://x"), tenant("a", "bert-base-mini")
    outcome = SeatOutcome(asked, 1.0, Properties(None, None, None, None, None), None, result, None, requests)
    found = of_tenant(outcome, own)
    assert found.tenant is own
    assert found.requests.done.tolist() == [4, MISSING_NS, 6], "an error of another kind stays one"
    assert found.requests.ok.tolist() == [1, 0, 0]
