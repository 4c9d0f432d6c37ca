"""Common to every protocol: refusals, deadlines, keys, limits, disconnects, metrics."""

import asyncio
import re

from cotenant.scheduling import Contract
from cotenant.serving.http.access import hash_of, new_key, opens
from cotenant.serving.http.request_options import wishes_of
from cotenant.serving.service import Wishes
from tests.serving.http.front import run
from tests.support import pace

IDS = {"inputs": [{"name": "input_ids", "datatype": "INT64", "shape": [1, 8], "data": [9] * 8}]}


def test_a_refusal_is_429_with_a_computed_retry_time():
    async def scenario(client):
        return await asyncio.gather(*(client.post("/v2/models/bert/infer", IDS) for _ in range(12)))

    answers = run(scenario, slow=("bert",))
    assert {answer.status for answer in answers} == {200, 429}
    refused = [answer for answer in answers if answer.status == 429]
    for answer in refused:
        assert int(answer.headers["retry-after"]) >= 1
        assert int(answer.headers["retry-after-ms"]) >= 1
        assert answer.headers["x-cotenant-why"] in {"over-share", "device-full"}
        assert float(answer.headers["x-cotenant-predicted-wait-ms"]) >= 0


def test_a_request_that_can_not_meet_its_own_deadline_is_413_without_retry():
    async def scenario(client):
        return await client.post("/v2/models/bert/infer", IDS, headers={"x-cotenant-deadline-ms": "50"})

    answer = run(scenario, slow=("bert",))
    assert answer.status == 413
    assert "retry-after" not in answer.headers
    assert "ask for less, or allow more time" in answer.json()["error"]


def test_a_disconnecting_client_cancels_its_request():
    async def scenario(client):
        gone = await client.post("/v2/models/bert/infer", IDS, leave_after_s=0.05)
        streamed = await client.post(
            "/v1/completions",
            {"model": "gpt", "prompt": "a", "max_tokens": 100, "stream": True},
            leave_after_s=0.4,
        )
        await asyncio.wait_for(client.service.conductor.drained(), pace.seconds(10))
        return gone, streamed, client.service.measures

    gone, streamed, measures = run(scenario, slow=("bert",))
    assert gone is None
    assert streamed is None or b"[DONE]" not in streamed.body or measures.of("gpt").served
    assert measures.of("bert").why["cancelled"] == 1


def test_deadline_and_priority_have_one_meaning():
    assert wishes_of({"x-llm-d-slo-ttft-ms": "300", "x-llm-d-slo-tpot-ms": "40"}) == Wishes(0.3, 0.04, 0)
    assert wishes_of({"x-slo-ttft-ms": "300"}) == wishes_of({"x-cotenant-deadline-ms": "300"})
    assert wishes_of({}, timeout_us=20_000, priority=3) == Wishes(0.02, None, 3)
    assert wishes_of({}, vllm_priority=3) == Wishes(None, None, -3)


def test_a_client_can_tighten_but_not_relax_its_contract():
    contract = Contract("gpt", 0.3, per_step_s=0.04)
    assert Wishes().within(contract, 10) is None
    assert Wishes(0.1, 0.01).within(contract, 10) == 0.2
    assert Wishes(60.0).within(contract, 10) == 0.7


def test_keys_are_valid_for_their_own_tenant_only():
    (bert, bert_hash), (gpt, gpt_hash), (admin, admin_hash) = new_key(), new_key(), new_key()

    async def scenario(client):
        async def infer(key):
            headers = {"authorization": f"Bearer {key}"} if key else {}
            return (await client.post("/v2/models/bert/infer", IDS, headers=headers)).status

        async def metrics(key):
            return (await client.get("/metrics", headers={"x-api-key": key})).status

        chat = {"model": "gpt", "prompt": "a"}
        wrong = await client.post("/v1/completions", chat, headers={"authorization": f"Bearer {bert}"})
        live = await client.get("/healthz")
        return (
            [await infer(key) for key in (bert, gpt, admin, "", "ct-x")],
            [await metrics(key) for key in (bert, admin)],
            wrong.status,
            live.status,
        )

    infers, metrics, wrong, live = run(scenario, keys={"bert": bert_hash, "gpt": gpt_hash}, admin=admin_hash)
    assert infers == [200, 403, 200, 401, 401]
    assert metrics == [403, 200]
    assert (wrong, live) == (403, 200)


def test_hashes_reveal_nothing_but_equality():
    key, hashed = new_key()
    assert key not in hashed
    assert opens(key, None, hash_of("other"), hashed)
    assert not opens(None, hashed)


def test_bodies_headers_and_paths_have_limits():
    async def scenario(client):
        announced = await client.post("/v2/models/bert/infer", b"", headers={"content-length": "5000"})
        sent = await client.post("/v2/models/bert/infer", b"", pieces=[b"x" * 600, b"x" * 600])
        headers = await client.get("/v2", headers={"x-long": "x" * 5000})
        path = await client.get("/" + "x" * 3000)
        odd = await client.post("/v2/models/bert/infer", b"", headers={"content-length": "-5"})
        return [answer.status for answer in (announced, sent, headers, path, odd)]

    assert run(scenario, body=1000, head=4000, path=2000) == [413, 413, 431, 414, 400]


def test_a_body_that_never_ends_times_out():
    async def scenario(client):
        return (await client.post("/v2/models/bert/infer", b"", headers={"content-length": "5"})).status

    assert run(scenario, body_s=0.05) == 408


def test_an_internal_error_is_500_and_the_next_request_is_served(caplog):
    async def scenario(client):
        client.service.tenants["bert"].signature = None
        first = await client.post("/v2/models/bert/infer", IDS)
        second = await client.post("/v2/models/conv/infer", {"inputs": [
            {"name": "pixels", "datatype": "FP32", "shape": [1, 3, 2, 2], "data": [0.5] * 12}]})  # fmt: skip
        return first, second

    first, second = run(scenario)
    assert first.status == 500
    assert first.json()["error"] == "Internal server error; see the server's log."
    assert second.status == 200
    assert "failed" in caplog.text


def test_metrics_add_up():
    async def scenario(client):
        for _ in range(3):
            await client.post("/v2/models/bert/infer", IDS)
        await client.post("/v1/completions", {"model": "gpt", "prompt": "a", "max_tokens": 4})
        return (await client.get("/metrics")).body.decode(), (await client.get("/status")).json()

    text, status = run(scenario)
    assert 'cotenant_requests_served_total{tenant="bert"} 3' in text
    assert 'cotenant_requests_within_objective_total{tenant="bert"} 3' in text
    assert 'cotenant_tokens_total{tenant="gpt"} 4' in text
    assert 'cotenant_latency_seconds_bucket{tenant="bert",le="+Inf"} 3' in text
    assert 'nv_inference_request_success{model="bert",version="1"} 3' in text
    names = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
    assert len(names) == len(set(names))
    bert = next(one for one in status["tenants"] if one["tenant"] == "bert")
    assert (bert["served"], bert["1min"]["attainment"], status["in_flight"]) == (3, 1.0, 0)


def test_pages_of_other_sites_can_not_use_a_server_without_keys():
    async def scenario(client):
        async def infer(**headers):
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            return (await client.post("/v2/models/bert/infer", IDS, headers=sent)).status

        return [
            await infer(host="localhost:8700"),
            await infer(host="[::1]:8700"),
            await infer(host="127.0.0.1"),
            await infer(host="evil.example:8700"),
            await infer(host="127.0.0.1.evil.example"),
            await infer(host="localhost", sec_fetch_site="same-origin"),
            await infer(host="localhost", sec_fetch_site="cross-site"),
        ]

    assert run(scenario) == [200, 200, 200, 421, 421, 200, 403]


def test_a_key_is_valid_under_any_host_name():
    key, hashed = new_key()

    async def scenario(client):
        headers = {"host": "models.example", "authorization": f"Bearer {key}"}
        return (await client.post("/v2/models/bert/infer", IDS, headers=headers)).status

    assert run(scenario, keys=dict.fromkeys(("bert", "conv", "gpt"), hashed)) == 200


def test_without_an_admin_key_no_tenants_key_opens_the_admins_doors():
    (bert, bert_hash), (_, gpt_hash) = new_key(), new_key()

    async def scenario(client):
        headers = {"authorization": f"Bearer {bert}"}
        doors = [await client.get(path, headers=headers) for path in ("/metrics", "/status")]
        return [door.status for door in doors], (
            await client.post("/v2/models/bert/infer", IDS, headers=headers)
        ).status

    doors, infer = run(scenario, keys={"bert": bert_hash, "gpt": gpt_hash})
    assert doors == [403, 403]
    assert infer == 200
