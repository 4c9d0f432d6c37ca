"""A front end: one address for all tenants of a plan, on every host of the cluster."""

import asyncio
import json
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from cotenant.clients.address import Address
from cotenant.clients.framing import HttpReply as Head
from cotenant.clients.http11 import Connections
from cotenant.errors import RequestFailed
from cotenant.fleet.serving.fence import EPOCH, FENCED, LOADS, SECRET
from cotenant.fleet.serving.loads import SILENT_S, DeviceLoad, TenantLoad, choose
from cotenant.serving.http import (
    Answer,
    HttpRequest,
    Reply,
    Responder,
    Status,
    in_json,
    opens,
    presented,
    read_json,
    refuse_foreign_pages,
    relay,
)

TIMEOUT_S = 600.0
ENDLESS_S = 1e9
AGAIN_S = 0.2
"""Pause before a lost device is asked for reports again."""
RETRY_AFTER_S = 1
_MODEL = re.compile(r"/v[12]/models/([^/]+)(?:/.*)?")
_OWN = ("/healthz", "/readyz", "/v2/health/live", "/v2/health/ready")
_HOP = {
    "connection",
    "keep-alive",
    "transfer-encoding",
    "te",
    "upgrade",
    "expect",
    "content-length",
    "host",
    SECRET,
    EPOCH,
}
_ELSEWHERE = {429, 503}
"""Refusals for lack of time or of a worker: another device may have both."""
_DEADLINE = "x-cotenant-deadline-ms"


@dataclass(slots=True)
class Owner:
    """A device server that owns its tenants, as this front end knows it."""

    address: Address
    epoch: int
    load: DeviceLoad = field(default_factory=DeviceLoad)
    said: Mapping[str, Any] = field(default_factory=dict)
    """Its last report."""
    listening: "asyncio.Task[None] | None" = None
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by its first report since the last table."""


class Front(Responder):
    """Sends each request to the fullest device that keeps its deadline, and to another one if that is lost."""

    def __init__(self, secret: str, *, admin_key: str | None, locked: bool, own: Iterable[str]) -> None:
        self._secret, self._admin_key, self._locked, self._own = secret, admin_key, locked, tuple(own)
        self.owners: dict[str, Owner] = {}
        self._promised: frozenset[str] = frozenset()
        self._connections: dict[tuple[str, int], Connections] = {}
        self.in_flight = 0
        self.draining = False

    def route(self, owners: Mapping[str, tuple[str, int, int]], tenants: Iterable[str]) -> None:
        """Follow a new table.

        Args:
            owners: Host, port and epoch by device. Those that stay keep their reports.
            tenants: All tenants of the plan, also those that wait for another device.
        """
        self._promised = frozenset(tenants)
        for owner in self.owners.values():
            owner.heard.clear()  # what it serves may have changed
        for name in [name for name, owner in self.owners.items() if owners.get(name, ())[2:] != (owner.epoch,)]:
            self._drop(name)
        for name, (host, port, epoch) in owners.items():
            if name not in self.owners:
                owner = Owner(Address(f"{host}:{port}", host, port), epoch)
                self.owners[name] = owner
                owner.listening = asyncio.get_running_loop().create_task(self._listen(owner))

    async def heard(self, within_s: float) -> None:
        """Wait until every device has reported since the last table, but not longer than this."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                for owner in list(self.owners.values()):
                    await owner.heard.wait()

    async def close(self) -> None:
        """Drop all connections."""
        for name in list(self.owners):
            self._drop(name)
        for connections in self._connections.values():
            await connections.close()

    def _drop(self, name: str) -> None:
        gone = self.owners.pop(name)
        if gone.listening is not None:
            gone.listening.cancel()

    def find(self, head: HttpRequest) -> Answer:
        """What answers a path. Raises Status."""
        method, path, headers = head.method, head.path, head.headers
        if path in _OWN:
            return self._health
        if not self._locked:
            refuse_foreign_pages(headers, *self._own)
        if path == "/status":
            if self._locked and not opens(presented(headers), self._admin_key):
                raise Status(403, "The admin's key is required.", hint="The file's `admin_key` holds its hash.")
            return self._status
        if path == "/v1/models" and method == "GET":
            return self._models
        if path.startswith(("/v1/", "/v2/models/")):
            return self._pass
        raise Status(404, f"There is nothing at {path[:200]}.", hint="A front end passes on /v1 and /v2/models.")

    async def _health(self, request: HttpRequest) -> Reply:
        ready = not self.draining and bool(self._tenants()) and all(self._serving(tenant) for tenant in self._tenants())
        alive = request.path in ("/healthz", "/v2/health/live")
        return in_json({"ready": ready} if not alive else {"live": True}, 200 if alive or ready else 503)

    async def _status(self, request: HttpRequest) -> Reply:
        del request
        return in_json(self.state())

    async def _models(self, request: HttpRequest) -> Reply:
        del request
        data = [{"id": tenant, "object": "model", "created": 0, "owned_by": "cotenant"} for tenant in self._tenants()]
        return in_json({"object": "list", "data": data})

    async def _pass(self, request: HttpRequest) -> Reply:
        if self.draining:
            return _unavailable("This server is stopping.")
        found = _MODEL.fullmatch(request.path)
        tenant = unquote(found.group(1)) if found else str(read_json(request.body).get("model"))
        if tenant not in self._tenants():
            raise Status(404, f"There is no model {tenant[:100]!r}.", hint="GET /v1/models lists them.")
        self.in_flight += 1
        try:
            return await self._sent(request, tenant)
        finally:
            self.in_flight -= 1

    async def _sent(self, request: HttpRequest, tenant: str) -> Reply:
        """The answer of the chosen device, or of others if it is lost or refuses."""
        begin = time.monotonic()
        within_s = _within_s(request)
        tried: list[str] = []
        refusal: Reply | None = None
        while True:
            now = time.monotonic()
            left = None if within_s is None else max(within_s - (now - begin), 1e-3)
            loads = {name: owner.load for name, owner in self.owners.items()}
            name = choose(loads, tenant, now, within_s=left, without=tried)
            if name is None:
                return refusal or _unavailable(f"No device serves {tenant} at the moment.")
            tried.append(name)
            owner = self.owners[name]
            try:
                reply = await self._ask(owner, request, tenant)
            except RequestFailed as error:
                # Its answer had not begun, so that no client gets two: another device may answer.
                owner.load.lost()
                refusal = _unavailable(f"{error.message}.")
                continue
            if FENCED in reply.headers:
                owner.load.lost()
                continue
            if reply.status not in _ELSEWHERE:
                return reply
            refusal = refusal or reply

    async def _ask(self, owner: Owner, request: HttpRequest, tenant: str) -> Reply:
        cost_s = owner.load.tenants[tenant].request_s
        headers = {name: value for name, value in request.headers.items() if name not in _HOP}
        headers |= {SECRET: self._secret, EPOCH: str(owner.epoch)}
        to = self._to(owner.address)

        async def send(take: Any) -> Head:
            owner.load.sent_s += cost_s
            try:
                body = request.body if request.method == "POST" else None
                return await to.send(request.method, request.path, body, take, headers=headers, begun=take)
            finally:
                owner.load.sent_s = max(0.0, owner.load.sent_s - cost_s)

        return await relay(send, _kept)

    def _to(self, address: Address) -> Connections:
        place = (address.host, address.port)
        if place not in self._connections:
            self._connections[place] = Connections(address, TIMEOUT_S, {})
        return self._connections[place]

    async def _listen(self, owner: Owner) -> None:
        """Follow a device's reports; they stop when it is lost."""
        while True:
            with suppress(TimeoutError, RequestFailed, ValueError, KeyError, TypeError):
                await self._reports(owner)
            owner.load.lost()
            await asyncio.sleep(AGAIN_S)

    async def _reports(self, owner: Owner) -> None:
        """Take reports until there are none for a while, or the device ends them."""
        rest = b""
        loop = asyncio.get_running_loop()

        def take(piece: bytes) -> None:
            nonlocal rest
            *lines, rest = (rest + piece).split(b"\n")
            if lines:
                owner.said = json.loads(lines[-1])
                loads = {name: TenantLoad.from_json(load) for name, load in owner.said["tenants"].items()}
                owner.load.report(loads, time.monotonic())
                owner.heard.set()
                silent.reschedule(loop.time() + SILENT_S)

        headers = {SECRET: self._secret, EPOCH: str(owner.epoch)}
        connections = Connections(owner.address, ENDLESS_S, {})
        try:
            async with asyncio.timeout(SILENT_S) as silent:
                await connections.send("GET", LOADS, None, take, headers=headers)
        finally:
            await connections.close()

    def _tenants(self) -> list[str]:
        return sorted(self._promised.union(*(owner.load.tenants for owner in self.owners.values())))

    def _serving(self, tenant: str) -> bool:
        now = time.monotonic()
        return any(owner.load.serves(tenant, now) for owner in self.owners.values())

    def state(self) -> dict[str, Any]:
        """Each device with its tenants, as plain data."""
        now = time.monotonic()
        return {
            "in_flight": self.in_flight,
            "draining": self.draining,
            "devices": [
                {
                    "device": name,
                    "address": owner.address.authority,
                    "epoch": owner.epoch,
                    "up": now - owner.load.reported_s <= SILENT_S,
                    "backlog_s": owner.load.backlog_s,
                    "tenants": {
                        tenant: {**owner.said["tenants"][tenant], "finish_s": owner.load.finish_s(tenant)}
                        for tenant in owner.load.tenants
                    },
                }
                for name, owner in self.owners.items()
            ],
        }


def _within_s(request: HttpRequest) -> float | None:
    """The client's deadline, if it is a number; the device refuses one that isn't."""
    try:
        return float(request.headers[_DEADLINE]) / 1e3
    except (KeyError, ValueError):
        return None


def _unavailable(why: str) -> Reply:
    return in_json({"error": why}, 503, {"retry-after": str(RETRY_AFTER_S)})


def _kept(name: str) -> bool:
    return name not in _HOP and name not in ("content-type", "date", "server")
