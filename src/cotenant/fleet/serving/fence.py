"""What stands before a device's server: only front ends of its cluster get in, and only while it owns its tenants.

A server whose node is lost may go on running. It owns its tenants for a lease that the command renews; without it, or
for a front end that knows another owner (another epoch), it refuses, so that an orphan never answers.
"""

import asyncio
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from cotenant.fleet.serving.loads import REPORT_S
from cotenant.serving.http.app import Application
from cotenant.serving.http.asgi import Answer, Asgi, Send
from cotenant.serving.http.messages import Reply, Request
from cotenant.serving.http.problems import Status
from cotenant.serving.http.visits import Receive
from cotenant.serving.service import Service

SECRET, EPOCH, FENCED = "x-cotenant-fleet", "x-cotenant-epoch", "x-cotenant-fenced"
LOADS = "/fleet/loads"


class Ownership:
    """Until when this server owns its tenants, and in which epoch it got them."""

    def __init__(self, epoch: int, until_utc_s: float, clock: Callable[[], float] = time.time) -> None:
        self.epoch = epoch
        self._until_utc_s = until_utc_s
        self._clock = clock

    def renew(self, until_utc_s: float) -> None:
        """Extend the lease. It names a time of day, so that a message that was held up extends nothing."""
        self._until_utc_s = max(self._until_utc_s, until_utc_s)

    def why_not(self, epoch: str | None) -> str | None:
        """Why a request of this epoch is refused; None if it isn't."""
        if self._clock() > self._until_utc_s:
            return "its lease has ended"
        return None if epoch == str(self.epoch) else f"it serves epoch {self.epoch}"


class Fence(Asgi):
    """Passes requests of the cluster's front ends on to the application, and reports its load to them."""

    def __init__(self, inner: Application, service: Service, secret: str, ownership: Ownership) -> None:
        super().__init__()
        self._inner, self._service, self._secret, self._ownership = inner, service, secret, ownership

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Handle one ASGI request."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        known = {SECRET: "", EPOCH: None}
        kept = []
        for name, value in scope["headers"]:
            said = name.decode("latin-1").lower()
            if said in known:
                known[said] = value.decode("latin-1")
            elif said != "host":  # the front end has checked the client's
                kept.append((name, value))
        if not hmac.compare_digest(str(known[SECRET]).encode(), self._secret.encode()):
            reply = _refused(401, "Only front ends of this cluster are served here.")
            await self.send_reply(reply, scope, receive, send)
        elif (why := self._ownership.why_not(known[EPOCH])) is not None:
            await self.send_reply(_refused(503, f"This server is fenced: {why}."), scope, receive, send)
        elif scope["path"] == LOADS:
            await super().__call__(scope, receive, send)
        else:
            await self._inner({**scope, "headers": kept}, receive, send)

    def _find(self, method: str, path: str, headers: Mapping[str, str]) -> Answer:
        del path, headers
        if method != "GET":
            raise Status(405, f"{LOADS} takes GET.")
        return self._loads

    async def _loads(self, request: Request) -> Reply:
        del request
        return Reply(200, kind="text/event-stream", pieces=self._reports())

    async def _reports(self) -> AsyncIterator[bytes]:
        """One line every 100 ms, until the lease ends or the server stops."""
        while not self._service.draining and self._ownership.why_not(str(self._ownership.epoch)) is None:
            yield json.dumps(report(self._service), separators=(",", ":")).encode() + b"\n"
            await asyncio.sleep(REPORT_S)


def report(service: Service) -> dict[str, Any]:
    """How busy a server is, by tenant."""
    standings = {one.tenant: one for one in service.standings()}
    tenants = {}
    for name, served in service.tenants.items():
        standing = standings.get(name)
        if standing is None:
            continue
        figures = service.measures.of(name)
        tenants[name] = {
            "ready": served.loaded and service.ready(name),
            "backlog_s": max(0.0, standing.backlog_s),
            "share": standing.share_rate,
            "request_s": standing.request_s,
            "objective_s": served.contract.within_s(served.tokens - 1 if served.signature.decodes else 0),
            "served": figures.served,
            "not_served": sum(figures.why.values()),
        }
    return {"device": service.device, "tenants": tenants}


def _refused(status: int, why: str) -> Reply:
    return Reply(status, json.dumps({"error": why}).encode(), headers={FENCED: "1"})
