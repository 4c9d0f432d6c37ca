"""A backend that stops answering costs its own requests a bounded time, is marked, and comes back."""

import asyncio
import contextlib
import json
import socket

import pytest

from cotenant.errors import ServingError
from cotenant.reporting.terminal.server import status_parts
from tests.serving.backends.behind import fronting, listening, run

ASK = {"model": "llm", "prompt": "a", "max_tokens": 1}
SHORT = {"connect": "300ms", "first": "300ms", "between": "300ms", "whole": "20s"}
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n"
PIECE = b'd\r\ndata: {"a":1}\r\n'


class Stalling:
    """Lists its model always; a POST is answered up to the step that ``hangs_at`` names."""

    def __init__(self, hangs_at=None):
        self.hangs_at = hangs_at
        self.posts = 0

    async def handle(self, reader, writer):
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = next((line.split(":")[1] for line in head.split("\r\n") if "content-length" in line), "0")
                await reader.readexactly(int(length))
                if head.startswith("get"):
                    body = json.dumps({"data": [{"id": "only"}]}).encode()
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                else:
                    self.posts += 1
                    await self.answer(reader, writer)
        writer.close()

    async def answer(self, reader, writer):
        if self.hangs_at == "first":
            await reader.read()  # until the client leaves
        kind = b"text/event-stream" if self.hangs_at == "stream" else b"application/json"
        writer.write(HEAD % kind + PIECE)
        if self.hangs_at in ("body", "stream"):
            await reader.read()  # until the client leaves
        while self.hangs_at == "end":  # pieces for ever
            writer.write(PIECE)
            await asyncio.sleep(0.05)
        writer.write(b"0\r\n\r\n")


def llm(port, parallel=1, **timeouts):
    timeouts = SHORT | timeouts
    backend = {"openai": f"http://127.0.0.1:{port}", "cost": "1ms", "parallel": parallel, "timeouts": timeouts}
    return {"slo": "20s", "tokens": 4, "backend": backend}


def behind(server, scenario, **options):
    async def main():
        async with listening(server.handle) as port, fronting({"llm": llm(port, **options)}) as client:
            return await scenario(client)

    return run(main)


@pytest.mark.parametrize(
    ("hangs_at", "said"),
    [("first", "sent no answer within 0.3 s"), ("body", "sent nothing for 0.3 s in the middle of an answer")],
)
def test_a_hanging_backend_is_504_marked_and_served_again_once_its_model_answers(hangs_at, said):
    server = Stalling(hangs_at)

    async def scenario(client):
        first = await client.post("/v1/completions", ASK)
        marked = (await client.get("/status")).json()
        ready = await client.get("/readyz")
        refused = await client.post("/v1/completions", ASK)
        metrics = (await client.get("/metrics")).body.decode()
        posts = server.posts
        while server.posts < posts + 2:  # it lists its models, but that is not enough: the model itself is asked
            await asyncio.sleep(0.02)
        still = (await client.get("/readyz")).status
        server.hangs_at = None
        while (await client.get("/readyz")).status != 200:
            await asyncio.sleep(0.02)
        last = await client.post("/v1/completions", ASK)
        after = (await client.get("/status")).json()
        return first, marked, ready, refused, metrics, still, last, after

    first, marked, ready, refused, metrics, still, last, after = behind(server, scenario)
    assert first.status == 504
    assert int(first.headers["retry-after"]) >= 1
    assert said in first.json()["error"]["message"]
    (backend,) = marked["workers"]
    assert (backend["up"], backend["timeouts"]) == (False, 1)
    assert said in backend["why"]
    line, table, *_ = status_parts(marked)
    assert said in line.plain
    assert "llm (backend down)" in list(table.columns[0].cells)
    assert (ready.status, ready.json()["backends_down"], ready.json()["tenants_not_ready"]) == (503, 1, 1)
    assert (refused.status, "retry-after" in refused.headers) == (503, True)
    assert 'cotenant_backend_up{backend="http' in metrics
    assert "cotenant_backend_timeouts_total{" in metrics
    assert still == 503
    assert last.status == 200
    assert after["workers"][0]["up"]


def test_the_slot_is_free_after_a_timeout_and_a_stream_ends_with_the_error():
    server = Stalling("stream")

    async def scenario(client):
        answer = await client.post("/v1/completions", {**ASK, "stream": True})
        await client.service.conductors()[-1].drained()
        return answer, client.service.in_flight

    answer, in_flight = behind(server, scenario)
    assert answer.status == 200
    assert b"sent nothing for 0.3 s in the middle of an answer" in answer.body.split(b"data: ")[-1]
    assert in_flight == 0


def test_an_answer_without_end_is_cut_off_but_a_backend_that_sends_is_not_marked():
    server = Stalling("end")

    async def scenario(client):
        answer = await client.post("/v1/completions", ASK)
        return answer, (await client.get("/status")).json()["workers"][0]

    answer, backend = behind(server, scenario, whole="600ms", between="20s")
    assert answer.status == 504
    assert "sent no complete answer within 0.6 s" in answer.json()["error"]["message"]
    assert (backend["up"], backend["timeouts"]) == (True, 1)


def test_one_slow_request_does_not_pause_a_backend_that_answers_others():
    class SlowOnce(Stalling):
        async def answer(self, reader, writer):
            if self.posts == 1:
                await reader.read()  # until the client leaves
            await super().answer(reader, writer)

    async def scenario(client):
        slow = asyncio.ensure_future(client.post("/v1/completions", ASK))
        while server.posts == 0:
            await asyncio.sleep(0.005)
        others = []
        while not slow.done():
            others.append((await client.post("/v1/completions", ASK)).status)
            await asyncio.sleep(0.01)
        return (await slow).status, set(others), (await client.get("/readyz")).status

    server = SlowOnce()
    assert behind(server, scenario, parallel=4) == (504, {200}, 200)


def test_a_connection_that_is_never_accepted_is_given_up():
    """A full backlog drops new connections: the client's SYN gets no answer."""

    async def scenario():
        with socket.socket() as full, contextlib.ExitStack() as held:
            server = Stalling()
            async with listening(server.handle) as port:
                opening = fronting({"llm": llm(port)})
                client = await opening.__aenter__()
            try:
                full.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                full.bind(("127.0.0.1", port))
                full.listen(0)
                for _ in range(8):
                    waiting = held.enter_context(socket.socket())
                    waiting.setblocking(False)
                    waiting.connect_ex(("127.0.0.1", port))
                answer = await client.post("/v1/completions", ASK)
                return answer, (await client.get("/readyz")).status
            finally:
                await opening.__aexit__(None, None, None)

    answer, ready = run(scenario)
    assert (answer.status, ready) == (504, 503)
    assert "accepted no connection within 0.3 s" in answer.json()["error"]["message"]


def test_a_backend_that_hangs_at_the_start_is_reported():
    async def scenario():
        async with listening(Stalling("first").handle) as port:
            tenant = llm(port)
            del tenant["backend"]["cost"]
            async with fronting({"llm": tenant}):
                pass

    with pytest.raises(ServingError, match=r"Tenant llm: .* sent no answer within 0\.3 s"):
        run(scenario)
