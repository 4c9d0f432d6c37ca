"""The real application in front of servers in the same loop: the scripted one, and an echo server."""

import asyncio
import contextlib
import json

from cotenant.serving.http.app import Application
from cotenant.serving.reloader import opened
from cotenant.serving.tenants_file import TenantsFile
from cotenant.workloads.servers.scripted import Script, ScriptedServer
from tests.serving.http.front import Client
from tests.support import pace


@contextlib.asynccontextmanager
async def listening(handle, port=0):
    writers = []

    async def handle_one(reader, writer):
        writers.append(writer)
        await handle(reader, writer)

    server = await asyncio.start_server(handle_one, "127.0.0.1", port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()


@contextlib.asynccontextmanager
async def scripted(port=0, **script):
    server = ScriptedServer(Script(**script))
    async with listening(server.handle, port) as at:
        yield server, at


@contextlib.asynccontextmanager
async def fronting(tenants, **more):
    """A client of our application over these tenants."""
    file = TenantsFile.model_validate({"tenants": tenants, **more})
    async with opened(file) as service:
        yield Client(Application(service), service)


class Repeater:
    """Echoes every POST and records it; refuses while asleep."""

    def __init__(self, *, models=("only",), asleep=False, refuses=()):
        self.got = []
        self.refuses = refuses
        self.asleep = asleep
        self.models = models

    async def handle(self, reader, writer):
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in head[1:])}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                status, answer, kept = self.answer(head[0].split()[0], head[0].split()[1], headers, body)
                more = "".join(f"{key}: {value}\r\n" for key, value in kept.items())
                writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(answer)}\r\n{more}\r\n".encode() + answer)
                await writer.drain()
        writer.close()

    def answer(self, method, path, headers, body):
        plain = {"Content-Type": "application/json"}
        tensor = {"name": "x", "datatype": "FP32", "shape": [-1, 4]}
        replies = {
            "/v1/models": {"data": [{"id": one} for one in self.models]},
            "/v2": {"name": "repeater", "extensions": ["binary_tensor_data"]},
            "/v2/models/only": {"name": "only", "inputs": [tensor], "outputs": [tensor]},
        }
        if method == "GET" and path not in replies:
            return 404, b"{}", plain
        if method == "GET":
            return 200, json.dumps(replies[path]).encode(), plain
        if path in {"/sleep?level=1", "/wake_up"}:
            self.asleep = path != "/wake_up"
            return 200, b"", plain
        self.got.append((path, headers, body))
        if unknown := [name for name in self.refuses if f'"{name}"'.encode() in body]:
            return 422, json.dumps({"detail": f"Unexpected fields in the request: {unknown}"}).encode(), plain
        if self.asleep:
            return 500, b'{"error": "asleep"}', plain
        kept = {name: headers[name] for name in ("inference-header-content-length",) if name in headers}
        return 200, body, {"Content-Type": headers.get("content-type", "text/plain"), **kept}


def run(scenario):
    return asyncio.run(asyncio.wait_for(scenario(), pace.seconds(60)))
