"""A front end without processes: the real application over a worker of small functions."""

import asyncio
import json
import time
from contextlib import asynccontextmanager

from cotenant.scheduling import BatchCurve, Contract, DeviceScheduler, Settings, TenantAdded, TenantCosts, chunk_cost
from cotenant.serving.codec import ByteCodec
from cotenant.serving.conductor import Conductor
from cotenant.serving.http.app import Application
from cotenant.serving.http.listener import listener_at, listening
from cotenant.serving.http.messages import HttpLimits
from cotenant.serving.measures import Measures
from cotenant.serving.service import ServedModel, Service
from cotenant.serving.simulated import SimulatedWorker
from cotenant.serving.tensors import Signature, TensorSpec
from cotenant.serving.workers.crew import Crew
from tests.support import pace

ENCODER = Signature(
    (TensorSpec("input_ids", "INT64", (-1, -1)), TensorSpec("attention_mask", "INT64", (-1, -1), optional=True)),
    (TensorSpec("embedding", "FP32", (-1, 4)),),
    vocabulary=1000,
    longest=64,
    embeds=True,
    typical=8,
)
VISION = Signature((TensorSpec("pixels", "FP32", (-1, 3, 2, 2)),), (TensorSpec("logits", "FP32", (-1, 5)),))
DECODER = Signature(
    (TensorSpec("input_ids", "INT64", (1, -1)),),
    (TensorSpec("tokens", "INT64", (1, -1)),),
    decodes=True,
    vocabulary=1000,
    longest=128,
    typical=8,
    cache_bytes=10,
)


@asynccontextmanager
async def front(*, slow=(), keys=None, admin=None, cache_memory=None, **limits):
    """The application over three tenants; ``slow`` ones take 0.2 s a request."""
    measures = Measures()
    settings = Settings(cache_bytes=cache_memory)
    conductor = Conductor(DeviceScheduler([], settings, now=time.monotonic()), Crew(), observe=measures.add)
    worker = SimulatedWorker(conductor)
    service = Service(conductor, "cpu", measures, lambda _: True, admin_key=admin)
    for name, signature in (("bert", ENCODER), ("conv", VISION), ("gpt", DECODER)):
        each = 0.2 if name in slow else 0.0005
        costs = TenantCosts((chunk_cost(each),))
        if signature.decodes:
            costs = TenantCosts(
                (chunk_cost(each),), step=chunk_cost(each / 4), step_curve=BatchCurve((1.0, 1.1)), steps=7
            )
        contract = Contract(name, 3 * costs.total_s if name in slow else 30.0)
        worker.add(name, signature, costs)
        conductor.crew.assign(name, worker)
        conductor.tell(TenantAdded(time.monotonic(), contract, costs))
        key = (keys or {}).get(name)
        service.tenants[name] = ServedModel(name, contract, costs, signature, ByteCodec(), 8, key)
    try:
        yield Client(Application(service), service, HttpLimits(**limits))
    finally:
        conductor.close()
        measures.settle()


class Answer:
    """An answer as its client reads it."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def json(self):
        return json.loads(self.body)

    def events(self):
        lines = [line for line in self.body.decode().split("\n\n") if line]
        assert all(line.startswith("data: ") for line in lines)
        return [line.removeprefix("data: ") for line in lines]


@asynccontextmanager
async def served(responder, limits=None):
    """A server on a port of its own."""
    with listener_at("127.0.0.1", 0) as listener:
        async with listening(responder, listener, limits) as server:
            yield server


class Client:
    """Speaks HTTP to an application, over a socket. Every request has a server and a connection of its own."""

    def __init__(self, application, service, limits=None):
        self.application = application
        self.service = service
        self.limits = limits

    async def ask(self, method, path, body=b"", headers=None, *, leave_after_s=None, pieces=None):
        if isinstance(body, dict | list):
            body = json.dumps(body).encode()
        sent = {"host": "localhost", **(headers or {})}
        if pieces is not None:
            sent["transfer-encoding"] = "chunked"
            body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (*pieces, body) if piece) + b"0\r\n\r\n"
        else:
            sent.setdefault("content-length", str(len(body)))
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        async with served(self.application, self.limits) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(head.encode() + b"\r\n" + body)
            try:
                async with asyncio.timeout(leave_after_s):
                    return await answer_from(reader, method)
            except TimeoutError:
                return None
            finally:
                writer.close()

    async def get(self, path, **more):
        return await self.ask("GET", path, **more)

    async def post(self, path, body=b"", **more):
        return await self.ask("POST", path, body, **more)


async def answer_from(reader, method="GET"):
    """Read one answer."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
    headers = dict(line.split(": ", 1) for line in lines[1:])
    status = int(lines[0].split()[1])
    if method == "HEAD":
        return Answer(status, headers, b"")
    if headers.get("transfer-encoding") != "chunked":
        return Answer(status, headers, await reader.readexactly(int(headers["content-length"])))
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)
    return Answer(status, headers, body)


def run(scenario, **options):
    async def main():
        async with front(**options) as client:
            return await asyncio.wait_for(scenario(client), pace.seconds(60))

    return asyncio.run(main())
