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
from cotenant.serving.http import Answer, Application, HttpRequest, Reply, Responder, Status
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


class Fence(Responder):
    """Passes requests of the cluster's front ends on to the application, and reports its load to them."""

    def __init__(self, inner: Application, service: Service, secret: str, ownership: Ownership) -> None:
        self._inner, self._service, self._secret, self._ownership = inner, service, secret, ownership

    def find(self, head: HttpRequest) -> Answer:
        """The application's handler, or the reports, for front ends that know the owner. Raises Status."""
        if not hmac.compare_digest(head.headers.get(SECRET, "").encode(), self._secret.encode()):
            raise _refused(401, "Only front ends of this cluster are served here.")
        if (why := self._ownership.why_not(head.headers.get(EPOCH))) is not None:
            raise _refused(503, f"This server is fenced: {why}.")
        if head.path == LOADS:
            if head.method != "GET":
                raise Status(405, f"{LOADS} takes GET.", headers={"allow": "GET"})
            return self._loads
        # The front end has checked the host that its client asked for.
        headers = {name: value for name, value in head.headers.items() if name not in (SECRET, EPOCH, "host")}
        answer = self._inner.find(head._replace(headers=headers))
        return lambda request: answer(request._replace(headers=headers))

    def marks(self) -> Mapping[str, str]:
        """Those of the application."""
        return self._inner.marks()

    async def _loads(self, request: HttpRequest) -> Reply:
        del request
        return Reply(200, kind="text/event-stream", pieces=self._reports())

    async def _reports(self) -> AsyncIterator[bytes]:
        """One line every 100 ms, until the lease ends or the server stops."""
        while not self._service.draining and self._ownership.why_not(str(self._ownership.epoch)) is None:
            yield json.dumps(report(self._service), separators=(",", ":")).encode() + b"\n"
            await asyncio.sleep(REPORT_S)


def report(service: Service) -> dict[str, Any]:
    """How busy a server is, by tenant."""
    standings = {standing.tenant: standing for standing in service.standings()}
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


def _refused(status: int, why: str) -> Status:
    return Status(status, why, headers={FENCED: "1"})
