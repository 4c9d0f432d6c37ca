"""Which path leads where, and with whose key."""

import pytest

from cotenant.serving.http import access, app, operations, v2
from cotenant.serving.http.app import ROUTES, find_route
from cotenant.serving.http.messages import Status
from tests.serving.http.front import run

OPEN = {
    "GET /", "GET /healthz", "GET /readyz", "GET /health", "GET /ping", "POST /ping", "GET /version", "GET /v2/?",
    "GET /v2/health/live", "GET /v2/health/ready", "GET /openapi.json", "GET /ui",
}  # fmt: skip
ADMIN = {
    "GET /v2/models/stats", "POST /v2/repository/index", "POST /v2/repository/models/{model}/load",
    "POST /v2/repository/models/{model}/unload", "GET /metrics", "GET /status", "POST /drain", "POST /reload",
}  # fmt: skip


def test_what_needs_no_key_and_what_only_the_admin_s_opens():
    kinds = {kind: {f"{route.method} {route.path}" for route in ROUTES if route.access == kind} for kind in
             ("open", "admin", "tenant")}  # fmt: skip
    assert (kinds["open"], kinds["admin"]) == (OPEN, ADMIN)
    assert sum(map(len, kinds.values())) == len(ROUTES), "no route twice"


@pytest.mark.parametrize(("key", "opened"), [("own", 403), ("other", 403), ("boss", 200), ("nobody", 401), (None, 401)])
def test_a_key_opens_what_is_its_own(key, opened):
    keys = {"bert": access.hash_of("own"), "gpt": access.hash_of("other")}

    async def scenario(client):
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        return [(await client.ask("GET", path, headers=headers)).status
                for path in ("/status", "/v2/models/bert", "/v2/models/conv", "/readyz")]  # fmt: skip

    own = {"own": 200, "boss": 200, "other": 403}.get(key, 401)
    known = 200 if own != 401 else 401
    assert run(scenario, keys=keys, admin=access.hash_of("boss")) == [opened, own, known, 200]


@pytest.mark.parametrize(
    ("method", "path", "handler", "parts", "allowed"),
    [
        ("GET", "/healthz", v2.live, {}, ()),
        ("HEAD", "/healthz", v2.live, {}, ()),
        ("HEAD", "/drain", None, {}, ("POST",)),
        ("PUT", "/ping", None, {}, ("GET", "POST")),
        ("GET", "/v2", v2.server, {}, ()),
        ("GET", "/v2/", v2.server, {}, ()),
        ("GET", "/v2/models/stats", v2.statistics, {}, ()),
        ("GET", "/v2/models/a/stats", v2.statistics, {"model": "a"}, ()),
        ("POST", "/v2/models/a/versions/1/infer", v2.infer, {"model": "a", "version": "1"}, ()),
        ("GET", "/v2/models/a%2Fb", v2.model, {"model": "a/b"}, ()),
        ("GET", "/v2/models/a%252Fb", v2.model, {"model": "a%2Fb"}, ()),
        ("GET", "/v2/models/", None, {}, ()),
        ("GET", "/status/", None, {}, ()),
        ("POST", "/reload", operations.reload, {}, ()),
    ],
)
def test_a_path_has_one_handler_and_its_names_are_unquoted_once(method, path, handler, parts, allowed):
    route, found, known = find_route(method, path)
    assert (route.handler if route else None, dict(found), known) == (handler, parts, allowed)


@pytest.mark.parametrize("name", ["%ff", "a%0ab", "a%00", "%e2%80%ae"])
def test_a_name_that_can_not_be_printed_is_refused(name):
    with pytest.raises(Status) as refused:
        find_route("GET", f"/v2/models/{name}")
    assert refused.value.status == 400


OWN_METRICS = {
    "cotenant_requests_served_total": "counter", "cotenant_requests_within_objective_total": "counter",
    "cotenant_requests_not_served_total": "counter", "cotenant_device_seconds_total": "counter",
    "cotenant_predicted_device_seconds_total": "counter", "cotenant_tokens_total": "counter",
    "cotenant_share": "gauge", "cotenant_backlog_seconds": "gauge", "cotenant_attainment": "gauge",
    "cotenant_request_cost_seconds": "gauge", "cotenant_tenant_ready": "gauge",
    "cotenant_requests_in_flight": "gauge", "cotenant_device_slowdown": "gauge",
    "cotenant_device_busy_seconds_total": "counter", "cotenant_latency_seconds": "histogram",
}  # fmt: skip


def test_the_page_of_metrics_has_every_figure_with_its_type():
    async def scenario(client):
        body = {"inputs": [{"name": "input_ids", "datatype": "INT64", "shape": [1, 8], "data": [9] * 8}]}
        for shape in ([1, 8], [1, 65]):
            tensor = {**body["inputs"][0], "shape": shape, "data": [9] * shape[1]}
            await client.post("/v2/models/bert/infer", {"inputs": [tensor]})
        client.service.workers = lambda: [{"tenants": ("bert", "gpt"), "restarts": 2}]
        client.service.record = lambda: {"recorded": 5, "missing": 3, "failing": None}
        return (await client.get("/metrics")).body.decode()

    lines = run(scenario).splitlines()
    types = dict(line.split()[2:] for line in lines if line.startswith("# TYPE cotenant_"))
    recorded = {"cotenant_requests_recorded_total": "counter", "cotenant_requests_not_recorded_total": "counter",
                "cotenant_record_failing": "gauge"}  # fmt: skip
    restarts = {"cotenant_worker_restarts_total": "counter"}
    missing = {"cotenant_requests_not_served_total"}
    assert {name: kind for name, kind in types.items() if name not in missing and "backend" not in name} == {
        name: kind for name, kind in (OWN_METRICS | recorded | restarts).items() if name not in missing
    }
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    expected = {
        'cotenant_requests_served_total{tenant="bert"}': 1, 'cotenant_requests_served_total{tenant="gpt"}': 0,
        'cotenant_requests_within_objective_total{tenant="bert"}': 1, 'cotenant_tenant_ready{tenant="conv"}': 1,
        "cotenant_requests_in_flight": 0, "cotenant_requests_recorded_total": 5,
        "cotenant_requests_not_recorded_total": 3, "cotenant_record_failing": 0,
        'cotenant_worker_restarts_total{tenants="bert+gpt"}': 2, 'cotenant_attainment{tenant="bert"}': 1,
    }  # fmt: skip
    assert {name: float(values[name]) for name in expected} == expected
    assert float(values['cotenant_share{tenant="bert"}']) == pytest.approx(1 / 3)
    assert float(values['cotenant_request_cost_seconds{tenant="bert"}']) == pytest.approx(0.0005, rel=0.5)


def test_what_is_not_measured_is_marked_in_every_answer():
    async def scenario(client):
        client.service.basis = "simulated"
        return [(await client.get(path)).headers.get("x-cotenant-basis") for path in ("/healthz", "/nowhere")]

    assert run(scenario) == ["simulated", "simulated"]
    assert app.Application(type("S", (), {"basis": "measured"})).marks() == {}
