"""A front end without processes: the real application over a worker of small functions."""

import asyncio
import json
import time
from contextlib import asynccontextmanager

from cotenant.scheduling import BatchCurve, Contract, Scheduler, Settings, TenantAdded, TenantCosts, chunk_cost
from cotenant.serving.conduct.conductor import Conductor
from cotenant.serving.conduct.crew import Crew
from cotenant.serving.http.app import Application
from cotenant.serving.http.asgi import Limits
from cotenant.serving.measures import Measures
from cotenant.serving.models.signature import Signature, TensorSpec
from cotenant.serving.models.text import ByteCodec
from cotenant.serving.service import Served, Service
from cotenant.serving.simulated import SimulatedWorker

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
    conductor = Conductor(Scheduler([], settings, now=time.monotonic()), Crew(), observe=measures.add)
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
        service.tenants[name] = Served(name, contract, costs, signature, ByteCodec(), 8, key)
    try:
        yield Client(Application(service, Limits(**limits)), service)
    finally:
        conductor.close()
        measures.settle()


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = {name.decode(): value.decode() for name, value in headers}
        self.body = body

    def json(self):
        return json.loads(self.body)

    def events(self):
        lines = [line for line in self.body.decode().split("\n\n") if line]
        assert all(line.startswith("data: ") for line in lines)
        return [line.removeprefix("data: ") for line in lines]


class Client:
    """Speaks ASGI to the application."""

    def __init__(self, application, service):
        self.application = application
        self.service = service

    async def ask(self, method, path, body=b"", headers=None, *, leave_after_s=None, pieces=None):
        if isinstance(body, dict | list):
            body = json.dumps(body).encode()
        sent = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        scope = {"type": "http", "method": method, "path": path, "headers": sent}
        coming = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces or ()]
        coming.append({"type": "http.request", "body": body, "more_body": False})
        out = []

        async def receive():
            if coming:
                return coming.pop(0)
            if leave_after_s is not None:
                await asyncio.sleep(leave_after_s)
                return {"type": "http.disconnect"}
            return await asyncio.Event().wait()

        async def send(message):
            out.append(message)

        await self.application(scope, receive, send)
        if not out:
            return None
        body = b"".join(message.get("body", b"") for message in out[1:])
        return Answer(out[0]["status"], out[0]["headers"], body)

    async def get(self, path, **more):
        return await self.ask("GET", path, **more)

    async def post(self, path, body=b"", **more):
        return await self.ask("POST", path, body, **more)


def run(scenario, **options):
    async def main():
        async with front(**options) as client:
            return await asyncio.wait_for(scenario(client), 60)

    return asyncio.run(main())
