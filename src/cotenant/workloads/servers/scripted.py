"""A server with known timing: `python -m cotenant.workloads.servers.scripted --port 8000 --ttft 0.02 --itl 0.005`.

It implements the OpenAI API and the Open Inference Protocol, computes nothing, and takes any number of requests.
With `--note` it records when each request was received and each token sent, on this machine's monotonic clock, to
compare with a client's measurements. `/stats` has the largest number of requests in flight.
"""

import argparse
import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cotenant.clients.arrivals import AVAILABLE, ArrivalTransport

MODEL = "scripted"
V2: Mapping[str, Any] = {
    "/v2": {"name": MODEL, "extensions": ["binary_tensor_data"]},
    "/v2/repository/index": [{"name": MODEL, "version": "1", "state": "READY"}],
    "/v2/models/scripted": {
        "name": MODEL,
        "inputs": [{"name": "ids", "datatype": "INT64", "shape": [-1, -1]}],
        "outputs": [],
    },
}
"""Descriptions of the Open Inference Protocol, by path."""
LARGEST_BODY = 64 << 20
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Script:
    """Durations in seconds, and the fault to inject."""

    ttft_s: float = 0.02
    itl_s: float = 0.005
    sleep_s: float = 0.2
    fault: str = ""
    """`500`: refuse; `rubbish`: stream invalid JSON; `break`: end midway; `die`: end the process; `crowd`: end it as
    soon as two requests are in flight."""
    after: int = 0
    """Requests that succeed before the fault sets in."""
    adapters: tuple[str, ...] = ()
    """Names of further models, as a server lists its loaded adapters."""
    thinks: int = 0
    """Reasoning tokens at the start of each answer."""
    counts: bool = True
    """Send `usage`, as most servers do."""
    notes: bool = False
    """Record when each request was received and each token sent, for `/noted`."""


class ScriptedServer:
    """Counts requests in flight, and answers according to the script."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.served = self.under_way = self.most_under_way = 0
        self._noted: list[dict[str, Any]] = []

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, request by request."""
        try:
            while (asked := await _request(reader)) is not None:
                self.under_way += 1
                self.most_under_way = max(self.most_under_way, self.under_way)
                try:
                    transport = writer.transport  # the handler runs later, after other work of the loop
                    arrived = transport.arrived_ns if isinstance(transport, ArrivalTransport) else time.monotonic_ns()
                    await self._answer(*asked, writer, arrived)
                finally:
                    self.under_way -= 1
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, path: str, body: Mapping[str, Any], writer: asyncio.StreamWriter, heard_ns: int) -> None:
        match path.partition("?")[0]:
            case "/health" | "/v2/health/ready":
                self.most_under_way = 0
                await _json(writer, {"status": "ready"})
            case "/stats":
                await _json(writer, {"most_under_way": self.most_under_way, "served": self.served})
            case "/noted":
                await _json(writer, self._noted)
            case "/v1/models":
                names = (MODEL, *self._script.adapters)
                await _json(writer, {"object": "list", "data": [{"id": name, "object": "model"} for name in names]})
            case "/metrics":
                await _text(writer, f'vllm:num_requests_running{{engine="0"}} {float(self.under_way - 1)}\n')
            case "/v2" | "/v2/repository/index" | "/v2/models/scripted":
                await _json(writer, V2[path.partition("?")[0]])
            case "/sleep" | "/v1/embeddings" | "/v1/rerank" | "/v2/models/scripted/infer":
                await self._slept(writer)
            case "/v1/chat/completions" | "/v1/completions":
                await self._generate(body, writer, heard_ns, chat="chat" in path)
            case _:
                await _json(writer, {"error": {"message": f"nothing is at {path}"}}, status="404 Not Found")

    async def _slept(self, writer: asyncio.StreamWriter) -> None:
        if await self._fails(writer):
            return
        await asyncio.sleep(self._script.sleep_s)
        await _json(writer, {"slept_s": self._script.sleep_s, "data": [], "usage": {"prompt_tokens": 1}})

    async def _generate(
        self, body: Mapping[str, Any], writer: asyncio.StreamWriter, heard_ns: int, *, chat: bool
    ) -> None:
        begin, sent_ns = heard_ns / 1e9, []
        if await self._fails(writer):
            return
        tokens = int(body.get("max_completion_tokens") or body.get("max_tokens") or 16)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        head = {"object": "chat.completion.chunk" if chat else "text_completion", "model": MODEL}
        if chat:
            writer.write(_event({**head, "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}))
        broken = self._faulty and self._script.fault == "break"
        for number in range(tokens // 2 if broken else tokens):
            await _until(begin + self._script.ttft_s + number * self._script.itl_s)
            if self._faulty and self._script.fault == "rubbish":
                writer.write(_chunk(b"data: this is not JSON\n\n"))
                continue
            key = "reasoning_content" if number < self._script.thinks else "content"
            text = {"delta": {key: "word "}} if chat else {"text": "word "}
            data = _event({**head, "choices": [{"index": 0, **text}]})
            sent_ns.append(time.monotonic_ns())
            writer.write(data)
        if broken:
            writer.transport.abort()
            return
        prompt = len(str(body.get("prompt") or body.get("messages") or "").split())
        if self._script.counts:
            usage = {"prompt_tokens": prompt, "completion_tokens": tokens}
            writer.write(_event({**head, "choices": [], "usage": usage}))
        writer.write(_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
        if self._script.notes:
            self._noted.append({"received_ns": heard_ns, "sent_ns": sent_ns})
        await writer.drain()

    @property
    def _faulty(self) -> bool:
        return bool(self._script.fault) and self.served > self._script.after

    async def _fails(self, writer: asyncio.StreamWriter) -> bool:
        """Count the request; refuse it or exit, if the script says so."""
        self.served += 1
        crowded = self._script.fault == "crowd" and self.under_way > 1
        if self._faulty and (crowded or self._script.fault == "die"):
            sys.stderr.write("scripted: out of patience, ending now\n")
            os._exit(3)
        if self._faulty and self._script.fault == "500":
            await _json(writer, {"error": {"message": "scripted failure"}}, status="500 Internal Server Error")
            return True
        return False


async def _until(moment_s: float) -> None:
    """Up to a millisecond late, like the loop's timers; the actual time is recorded."""
    left = moment_s - time.monotonic()
    if left > 0:
        await asyncio.sleep(left)


async def _request(reader: asyncio.StreamReader) -> tuple[str, Mapping[str, Any]] | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.split("\r\n")
    headers = {key.strip().lower(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    size = int(headers.get("content-length", 0))
    body = await reader.readexactly(size) if 0 < size <= LARGEST_BODY else b""
    try:
        document = json.loads(body) if body else {}
    except ValueError:
        document = {}
    return first.split(" ")[1], document if isinstance(document, dict) else {}


def _event(document: Mapping[str, Any]) -> bytes:
    return _chunk(b"data: " + json.dumps(document).encode() + b"\n\n")


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


async def _json(writer: asyncio.StreamWriter, document: Any, status: str = "200 OK") -> None:
    await _text(writer, json.dumps(document), status, "application/json")


async def _text(
    writer: asyncio.StreamWriter, text: str, status: str = "200 OK", kind: str = "text/plain; version=0.0.4"
) -> None:
    body = text.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


async def run(port: int, script: Script) -> None:
    """Serve on the loopback interface until stopped."""
    handle = ScriptedServer(script).handle
    if script.notes and AVAILABLE:
        await _serve_noting_arrivals(port, handle)
        return
    server = await asyncio.start_server(handle, "127.0.0.1", port)
    _say_listening(port)
    async with server:
        await server.serve_forever()


async def _serve_noting_arrivals(port: int, handle: Handler) -> None:
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", port), backlog=1024) as listener:
        listener.setblocking(False)
        _say_listening(port)
        while True:
            accepted, _ = await loop.sock_accept(listener)
            protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader(loop=loop), handle, loop=loop)
            ArrivalTransport(loop, accepted, protocol)


def _say_listening(port: int) -> None:
    sys.stderr.write(f"scripted: listening on port {port}\n")


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description="A server with known timing.")
    parser.add_argument("--port", type=int, required=True)
    usual = Script()
    parser.add_argument("--ttft", type=float, default=usual.ttft_s, help="seconds to the first token")
    parser.add_argument("--itl", type=float, default=usual.itl_s, help="seconds between tokens")
    parser.add_argument("--sleep", type=float, default=usual.sleep_s, help="seconds that /sleep takes")
    parser.add_argument("--fault", choices=["", "500", "rubbish", "break", "die", "crowd"], default="")
    parser.add_argument("--after", type=int, default=0, help="requests before the fault sets in")
    parser.add_argument("--adapter", action="append", default=[], help="another model to list; repeatable")
    parser.add_argument("--thinks", type=int, default=0, help="reasoning tokens at the start of an answer")
    parser.add_argument("--no-usage", action="store_true", help="send no count of tokens")
    parser.add_argument("--note", action="store_true", help="record the times of requests and tokens for /noted")
    given = parser.parse_args()
    script = Script(
        given.ttft,
        given.itl,
        given.sleep,
        given.fault,
        given.after,
        tuple(given.adapter),
        given.thinks,
        not given.no_usage,
        given.note,
    )
    asyncio.run(run(given.port, script))


if __name__ == "__main__":
    main()
