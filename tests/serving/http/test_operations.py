"""What operators are told: readiness, status by window, draining."""

import pytest

from cotenant.serving.measures import Lately
from cotenant.serving.service import Service
from tests.serving.http.front import run


def test_a_ready_server_says_so_with_200_and_a_draining_one_with_503():
    async def scenario(client):
        before = await client.get("/readyz")
        await client.post("/drain")
        return before, await client.get("/readyz")

    before, after = run(scenario)
    assert (before.status, before.json()) == (
        200,
        {
            "ready": True, "draining": False, "tenants": 3, "tenants_not_ready": 0, "backends_down": 0,
            "requests_not_recorded": 0,
        },
    )  # fmt: skip
    assert (after.status, after.json()["ready"], after.json()["draining"]) == (503, False, True)


def test_the_status_is_of_the_last_one_five_and_fifteen_minutes(monkeypatch):
    lengths, window = [], Lately.window

    def noted(lately, now, length_s):
        lengths.append(length_s)
        return window(lately, now, length_s)

    monkeypatch.setattr(Lately, "window", noted)

    async def scenario(client):
        return await client.get("/status")

    tenant, *_ = run(scenario).json()["tenants"]
    assert lengths[:3] == [60.0, 300.0, 900.0]
    assert {"1min", "5min", "15min"} <= tenant.keys()


def test_draining_waits_half_a_minute_for_requests_in_flight(monkeypatch):
    waited = []

    async def drain(_, within_s):
        waited.append(within_s)
        return False

    monkeypatch.setattr(Service, "drain", drain)

    async def scenario(client):
        return await client.post("/drain")

    answer = run(scenario)
    assert (answer.status, answer.json(), waited) == (200, {"drained": False}, [30.0])


@pytest.mark.parametrize(
    ("path", "status", "location"), [("/ui", 404, None), ("/", 307, "/v1/models"), ("/version", 200, None)]
)
def test_without_a_live_page_the_front_page_leads_to_the_models(path, status, location):
    async def scenario(client):
        return await client.get(path)

    answer = run(scenario)
    assert (answer.status, answer.headers.get("location")) == (status, location)
