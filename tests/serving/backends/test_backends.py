"""Other servers behind our admission: passed through unchanged, in our order, within our contracts."""

import asyncio
import json
import struct
import time

import pytest
import uvloop

from cotenant.errors import ServingError
from tests.serving.backends.behind import Repeater, fronting, listening, run, scripted
from tests.support import pace

CHAT = {"model": "llm", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 6, "stream": True}


def llm(port, **more):
    return {"slo": "20s", "tokens": 4, "backend": {"openai": f"http://127.0.0.1:{port}", **more}}


def test_a_stream_is_passed_piece_by_piece_and_counted():
    async def scenario():
        async with scripted(ttft_s=0.002, itl_s=0.001) as (server, port), fronting({"llm": llm(port)}) as client:
            answer = await client.post("/v1/chat/completions", CHAT)
            return answer, client.service.measures.of("llm"), server.served

    answer, measured, _ = run(scenario)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.events()[-1] == "[DONE]"
    assert sum("word" in event for event in answer.events()) == 6
    assert (measured.served, measured.within, measured.generation.first_s.count) == (1, 1, 1)
    assert measured.tokens >= 6


def test_a_backend_is_reached_from_uvloop_as_in_the_real_server():
    async def scenario():
        async with scripted(ttft_s=0.002, itl_s=0.001) as (_, port), fronting({"llm": llm(port)}) as client:
            return await client.post("/v1/chat/completions", CHAT)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        answer = runner.run(scenario())
    assert (answer.status, answer.events()[-1]) == (200, "[DONE]")


def test_everything_but_the_models_name_passes_through_and_our_key_does_not():
    repeater = Repeater()
    asked = {
        "model": "llm",
        "messages": [{"role": "user", "content": "weather?"}],
        "tools": [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}},
        "logprobs": True,
        "priority": -3,
    }

    async def scenario():
        async with listening(repeater.handle) as port, fronting({"llm": llm(port, cost="1ms")}) as client:
            return await client.post("/v1/chat/completions", asked, headers={"authorization": "Bearer ours"})

    answer = run(scenario)
    path, headers, body = repeater.got[-1]
    assert path == "/v1/chat/completions"
    assert "authorization" not in headers
    assert json.loads(body) == {**{key: value for key, value in asked.items() if key != "priority"}, "model": "only"}
    assert answer.body == body


def test_a_number_beyond_every_float_is_not_passed_on_as_something_else():
    repeater = Repeater()

    async def scenario():
        async with (
            listening(repeater.handle) as port,
            fronting({"m": {"backend": {"openai": f"http://127.0.0.1:{port}", "cost": "1ms"}, "slo": "30s"}}) as client,
        ):
            body = b'{"model": "m", "prompt": "a", "temperature": 1e999}'
            return await client.ask("POST", "/v1/completions", body)

    answer = run(scenario)
    assert (answer.status, "A number is too large" in answer.body.decode()) == (400, True)
    assert not repeater.got


def test_the_backends_own_key_comes_from_the_environment(monkeypatch):
    repeater = Repeater()
    monkeypatch.setenv("BACKEND_KEY", "theirs")

    async def scenario(**more):
        async with listening(repeater.handle) as port, fronting({"llm": llm(port, cost="1ms", **more)}) as client:
            await client.post("/v1/completions", {"model": "llm", "prompt": "a"})

    run(lambda: scenario(key_env="BACKEND_KEY"))
    assert repeater.got[-1][1]["authorization"] == "Bearer theirs"
    monkeypatch.delenv("BACKEND_KEY")
    with pytest.raises(ServingError, match="BACKEND_KEY is empty"):
        run(lambda: scenario(key_env="BACKEND_KEY"))


def test_binary_tensors_pass_through():
    repeater = Repeater()
    header = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "parameters": {}}]}).encode()
    body = header + struct.pack("<4f", 1, 2, 3, 4)

    async def scenario():
        async with listening(repeater.handle) as port:
            tenants = {"net": {"slo": "20s", "backend": {"v2": f"http://127.0.0.1:{port}", "model": "only"}}}
            async with fronting(tenants) as client:
                sent = {"inference-header-content-length": str(len(header))}
                answer = await client.post("/v2/models/net/infer", body, headers=sent)
                described = await client.get("/v2/models/net")
                wrong = await client.post("/v1/completions", {"model": "net", "prompt": "a"})
                return answer, described.json(), wrong

    answer, described, wrong = run(scenario)
    assert (answer.status, answer.body) == (200, body)
    assert answer.headers["inference-header-content-length"] == str(len(header))
    assert repeater.got[-1][0] == "/v2/models/only/infer"
    assert described["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert wrong.status == 400
    assert "Open Inference Protocol (/v2) only" in wrong.json()["error"]["message"]


def test_requests_in_flight_are_limited_and_in_our_order():
    async def scenario():
        order = []
        async with (
            scripted(ttft_s=0.3, itl_s=0.0) as (server, port),
            fronting({"llm": llm(port, parallel=1, cost="300ms")}) as client,
        ):
            server.most_under_way = 0

            async def ask(number):
                answer = await client.post("/v1/completions", {"model": "llm", "prompt": "a", "max_tokens": 1})
                assert answer.status == 200
                order.append(number)

            first = asyncio.ensure_future(ask(0))
            await asyncio.sleep(0.05)
            await asyncio.gather(first, *(ask(one) for one in (1, 2, 3)))
            return order, server.most_under_way

    order, most = run(scenario)
    assert order == [0, 1, 2, 3]
    assert most == 1


def test_a_flood_is_refused_with_a_retry_time_and_the_other_tenant_is_served():
    async def scenario():
        async with scripted(sleep_s=0.04) as (_, port):
            backend = {"v2": f"http://127.0.0.1:{port}", "model": "scripted", "parallel": 1}
            tenants = {
                "flood": {"slo": "0.3s", "share": "30%", "backend": backend},
                "calm": {"slo": "0.5s", "share": "70%", "backend": backend},
            }
            async with fronting(tenants) as client:
                body = {"inputs": [{"name": "ids", "datatype": "INT64", "shape": [1, 1], "data": [1]}]}
                flood = [asyncio.ensure_future(client.post("/v2/models/flood/infer", body)) for _ in range(60)]
                await asyncio.sleep(0.05)
                calm = await client.post("/v2/models/calm/infer", body)
                return calm, await asyncio.gather(*flood)

    calm, flood = run(scenario)
    assert calm.status == 200
    refused = [answer for answer in flood if answer.status == 429]
    assert len(refused) > 30
    assert all(int(answer.headers["retry-after-ms"]) > 0 for answer in refused)


def test_a_backend_that_goes_down_is_503_and_is_served_again_when_it_is_back():
    async def scenario():
        async with scripted() as (_, port):
            opening = fronting({"llm": llm(port, cost="10ms")})
            client = await opening.__aenter__()
        statuses, body = [], {"model": "llm", "prompt": "a", "max_tokens": 1}
        down = await client.post("/v1/completions", body)
        ready = await client.get("/v2/health/ready")
        statuses += [down.status, ready.status]
        async with scripted(port):
            began = time.monotonic()
            while (await client.get("/v2/health/ready")).status != 200:
                assert time.monotonic() - began < pace.seconds(20)
                await asyncio.sleep(0.05)
            statuses.append((await client.post("/v1/completions", body)).status)
            await opening.__aexit__(None, None, None)
        return statuses, down.headers

    statuses, headers = run(scenario)
    assert statuses == [503, 503, 200]
    assert int(headers["retry-after"]) >= 1


def test_a_disconnecting_client_aborts_the_backends_work():
    async def scenario():
        broken_off = asyncio.Event()

        async def endless(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {}\n\n")
            while await reader.read(1000):
                pass
            broken_off.set()
            writer.close()

        async with listening(endless) as port:
            tenants = {"llm": llm(port, cost="1ms", model="any")}
            async with fronting(tenants) as client:
                await client.post("/v1/chat/completions", CHAT, leave_after_s=0.2)
                await asyncio.wait_for(broken_off.wait(), pace.seconds(20))
                await client.service.conductors()[-1].drained()
                return dict(client.service.measures.of("llm").why)

    assert run(scenario) == {"cancelled": 1}


@pytest.mark.parametrize(("fault", "status"), [("500", 500), ("break", 200)])
def test_faults_of_the_backend_are_reported(fault, status):
    async def scenario():
        async with (
            scripted(ttft_s=0.001, itl_s=0.001, fault=fault, after=12) as (_, port),
            fronting({"llm": llm(port)}) as client,
        ):
            answer = await client.post("/v1/chat/completions", CHAT)
            await client.service.conductors()[-1].drained()
            return answer, client.service.measures.of("llm")

    answer, figures = run(scenario)
    assert answer.status == status
    assert (figures.served, dict(figures.why)) == (0, {"failed": 1}), "an error is no service"
    if fault == "break":
        assert "closed the connection in the middle" in answer.events()[-1]
    else:
        assert answer.json()["error"]["message"] == "scripted failure"


def test_an_objective_below_the_backends_time_is_refused_at_the_start():
    async def scenario():
        async with scripted(ttft_s=0.05, itl_s=0.01) as (_, port), fronting({"llm": {**llm(port), "slo": "20ms"}}):
            pass

    with pytest.raises(ServingError, match=r"can't meet its objective of 20\.0 ms"):
        run(scenario)


@pytest.mark.parametrize(
    ("refuses", "asked"),
    [((), "prompt"), (["prompt"], "messages"), (["ignore_eos"], "prompt"), (["ignore_eos", "prompt"], "messages")],
)
def test_a_backend_is_probed_with_requests_that_it_accepts(refuses, asked):
    repeater = Repeater(refuses=refuses)

    async def scenario():
        async with listening(repeater.handle) as port, fronting({"llm": llm(port)}):
            return json.loads(repeater.got[-1][2])

    probed = run(scenario)
    assert asked in probed
    assert ("ignore_eos" in probed) == ("ignore_eos" not in refuses)


def test_a_backend_that_refuses_every_probe_is_quoted():
    async def scenario():
        async with listening(Repeater(refuses=["model"]).handle) as port, fronting({"llm": llm(port)}):
            pass

    with pytest.raises(ServingError, match=r"Tenant llm: .* refused a plain request .*: 422 .*Unexpected fields"):
        run(scenario)


def test_an_unreachable_backend_is_reported_at_the_start():
    async def scenario():
        async with fronting({"llm": llm(9)}):
            pass

    with pytest.raises(ServingError, match=r"Tenant llm: The backend http://127\.0\.0\.1:9 can't be queried"):
        run(scenario)


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (200, "application/json; charset=utf-8", (200, "application/json; charset=utf-8")),
        (200, "application/problem+json", (200, "application/problem+json")),
        (200, "text/html", (200, "application/octet-stream")),
        (302, "text/html", (502, "application/json")),
    ],
)
def test_a_backend_can_neither_redirect_clients_nor_put_pages_on_our_address(status, kind, expected):
    class Odd(Repeater):
        def answer(self, method, path, headers, body):
            if method == "POST":
                return status, b"{}", {"Content-Type": kind, "Location": "http://127.0.0.1:1/"}
            return super().answer(method, path, headers, body)

    async def scenario():
        async with (
            listening(Odd().handle) as port,
            fronting({"m": {"backend": {"openai": f"http://127.0.0.1:{port}", "cost": "1ms"}, "slo": "30s"}}) as client,
        ):
            return await client.post("/v1/completions", {"model": "m", "prompt": "a"})

    answer = run(scenario)
    assert (answer.status, answer.headers["content-type"]) == expected
    assert "location" not in answer.headers


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"Content-Length: 300000000\r\n\r\n", "the answer is longer than 256 MiB"),
        (b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n", "the answer is longer than 256 MiB"),
        (b"Content-Length: 2\r\nContent-Length: 9\r\n\r\n{}", "it has two values of content-length"),
        (b"Content-Length: 2\r\nRetry-After: 1\rX: y\r\n\r\n{}", "a header is"),
    ],
    ids=["length", "chunk", "two lengths", "injected header"],
)
def test_an_answer_that_announces_too_much_or_can_be_read_in_two_ways_is_not_passed_on(answer, said):
    class Lying(Repeater):
        async def handle(self, reader, writer):
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 25\r\n\r\n" + b'{"data": [{"id":"only"}]}')
                writer.close()
                return
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + answer)
            await writer.drain()

    async def scenario():
        async with (
            listening(Lying().handle) as port,
            fronting({"m": {"backend": {"openai": f"http://127.0.0.1:{port}", "cost": "1ms"}, "slo": "30s"}}) as client,
        ):
            return await client.post("/v1/completions", {"model": "m", "prompt": "a"})

    reply = run(scenario)
    assert reply.status == 502
    assert said in reply.body.decode()
