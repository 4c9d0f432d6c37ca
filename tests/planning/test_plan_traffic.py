"""Planning again from served traffic takes the rates that came."""

from types import SimpleNamespace

import duckdb
import numpy as np
import pytest

from cotenant.errors import CotenantError
from cotenant.planning.inputs.tenants import as_served
from cotenant.planning.mixes.tenants import planned
from cotenant.store.watched import Traffic, traffic_of
from cotenant.study.model import Study
from cotenant.tenancy.records import SERVED

FILE = Study.model_validate(
    {
        "tenants": {
            "a": {"workload": "bert-base-mini", "rate": "20/s", "slo": {"p99": "30ms"}},
            "b": {"workload": "resnet18-mini", "rate": "5/s"},
        }
    }
)


def served(rate, count=400, *, load=SERVED, batch=1):
    con = duckdb.connect()
    con.execute("CREATE TABLE trials AS SELECT 'r' AS run, unnest([0, 1]) AS trial, ? AS load", [load])
    con.execute(f"CREATE TABLE tenants AS SELECT run, trial, 0 AS tenant, 'a' AS \"of\", {batch} AS batch FROM trials")
    columns = "intended_ns BIGINT, device_ns BIGINT, ok BOOL"
    con.execute(f"CREATE TABLE requests (run VARCHAR, trial INT, tenant INT, {columns})")
    due = np.cumsum(np.random.default_rng(1).exponential(1e9 / rate, count)).astype(int)
    for number, one in enumerate(due.tolist()):
        refused = number % 10 == 0
        values = [number * 2 // count, one, None if refused else 6_000_000, not refused]
        con.execute("INSERT INTO requests VALUES ('r', ?, 0, ?, ?, ?)", values)
    return SimpleNamespace(con=con, manifests=[{}])


def test_the_rate_and_bursts_are_those_of_all_recorded_arrivals():
    found = traffic_of(served(8.0))["a"]
    assert found.requests == 400
    assert found.rate_rps == pytest.approx(8.0, rel=0.15)
    assert found.cv == pytest.approx(1.0, abs=0.2)


def test_the_cost_of_a_request_is_known_where_it_was_served_by_itself():
    found = traffic_of(served(8.0))["a"]
    assert (found.served, found.cost_s) == (360, pytest.approx(0.006))
    in_batches = traffic_of(served(8.0, batch=8))["a"]
    assert (in_batches.served, in_batches.cost_s) == (0, None)


def test_requests_of_a_study_are_not_traffic():
    assert traffic_of(served(8.0, load="poisson(8)")) == {}


@pytest.fixture
def traffic(monkeypatch):
    def set_to(found):
        context = SimpleNamespace(__enter__=lambda self: None, __exit__=lambda *_: None)
        opened = type("Opened", (), vars(context))
        monkeypatch.setattr("cotenant.store.baselines.resolve", lambda run: run)
        monkeypatch.setattr("cotenant.store.reading.open_runs", lambda paths: opened())
        monkeypatch.setattr("cotenant.store.watched.traffic_of", lambda runs: found)

    return set_to


def test_a_plan_uses_the_served_rate_and_keeps_what_was_not_served(traffic):
    traffic({"a": Traffic(1000, 31.0, 1.4), "b": Traffic(3, 1.0, 1.0)})
    found = as_served(FILE, ["run"])
    a, b = planned(found.file.tenants)
    assert (a.rate_rps, a.cv, a.objectives) == (31.0, 1.4, planned(FILE.tenants)[0].objectives)
    assert b == planned(FILE.tenants)[1]
    assert found.sentence == "rates as served: a 31.0/s (cv 1.4) instead of 20.0/s"
    assert found.costs_s == {}


def test_a_cost_needs_as_many_requests_as_a_rate(traffic):
    traffic({"a": Traffic(1000, 31.0, 1.4, 900, 0.006), "b": Traffic(1000, 31.0, 1.0, 5, 0.1)})
    assert as_served(FILE, ["run"]).costs_s == {"a": 0.006}


def test_traffic_of_other_tenants_is_an_error(traffic):
    traffic({"other": Traffic(1000, 31.0, 1.4)})
    with pytest.raises(CotenantError, match="no tenant of the plan had 30 requests"):
        as_served(FILE, ["run"])
