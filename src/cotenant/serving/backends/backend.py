"""A backend server: pooled connections with timeouts, health checks, sleep and wake."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cotenant.clients.framing import HttpReply
from cotenant.clients.http11 import Connections, Timeouts
from cotenant.errors import RequestFailed, ServingError, WorkloadError
from cotenant.tenancy.backend import BackendEntry

# One request to a backend, and its reply.

Piece = HttpReply | bytes


@dataclass(frozen=True, slots=True)
class Errand:
    """A request; ``take`` gets the head of the answer, then its body in pieces."""

    target: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    take: Callable[[Piece], None] = lambda _: None


ALIVE = {"openai": "/v1/models", "v2": "/v2/health/ready"}
PROBE_S = 10.0
"""Longest wait for the answer to a health check."""
NEARLY = 0.99
"""A timer may ring a little early on another clock's tick."""
SERVER_ERROR = 500
TIMEOUTS_HINT = "`timeouts:` of the backend waits longer"


class Backend:
    """One address. Call all methods from the loop's thread."""

    def __init__(self, entry: BackendEntry) -> None:
        self.entry = entry
        self.address = entry.address
        self.down: str | None = None
        """Why it is marked: None while it answers."""
        self.down_since = 0.0
        self.timeouts = 0
        """Requests that it did not answer in time."""
        self.check: Errand | None = None
        """A small request that proves more than a GET: that the model answers."""
        waits = entry.timeouts
        self._connections = Connections(
            self.address,
            Timeouts(waits.whole, waits.connect, waits.first, waits.between, hint=TIMEOUTS_HINT),
            _headers(entry),
        )
        self.probe_s = min(PROBE_S, waits.first, waits.whole)

    @property
    def up(self) -> bool:
        """Whether it answered when it was last asked."""
        return self.down is None

    def mark(self, why: str) -> None:
        """Nothing is sent until it answers a health check."""
        self.down, self.down_since = why, time.monotonic()

    def unmark(self) -> float:
        """It answers again; returns the seconds that it was down."""
        self.down = None
        return time.monotonic() - self.down_since

    def silent(self, seconds: float) -> bool:
        """Whether no answer to any request has continued for so long."""
        return time.monotonic_ns() - self._connections.heard_ns >= NEARLY * seconds * 1e9

    async def send(self, errand: Errand) -> HttpReply:
        """Send a request. Cancelling closes the connection, so that the backend stops too.

        Raises:
            RequestFailed: It can't be reached, or closed the connection.
        """
        return await self._connections.send(
            "POST",
            self.address.path.rstrip("/") + errand.target,
            errand.body,
            errand.take,
            headers=errand.headers,
            begun=errand.take,
        )

    async def get(self, path: str) -> HttpReply:
        """A GET request. Raises RequestFailed."""
        path = self.address.path.rstrip("/") + path
        return await self._connections.send("GET", path, None, within_s=self.probe_s)

    async def json(self, path: str) -> Any:
        """The JSON at this path. Raises ServingError."""
        import json

        try:
            reply = await self.get(path)
            if reply.ok:
                return json.loads(reply.body)
        except (ValueError, WorkloadError) as error:
            raise ServingError(
                f"The backend {self.address.name} can't be queried: {getattr(error, 'message', error)}.",
                hint="Start it first, and give its address without a path such as /v1.",
            ) from None
        raise ServingError(f"The backend {self.address.name} answered {path} with status {reply.status}.")

    async def alive(self, *, check: bool = False) -> bool:
        """Whether it answers; ``check``: whether its model does, where that can be asked."""
        try:
            if not (await self.get(ALIVE[self.entry.protocol])).ok:
                return False
            if not check or self.check is None:
                return True
            path = self.address.path.rstrip("/") + self.check.target
            headers = self.check.headers
            reply = await self._connections.send("POST", path, self.check.body, headers=headers, within_s=self.probe_s)
        except RequestFailed:
            return False
        return reply.status < SERVER_ERROR

    async def sleep(self) -> None:
        """Free the device's memory; weights move to the host. Raises RequestFailed."""
        await self._post("/sleep?level=1")

    async def wake(self) -> None:
        """Wake it up. Raises RequestFailed."""
        await self._post("/wake_up")

    async def close(self) -> None:
        """Drop the connections."""
        await self._connections.close()

    async def _post(self, path: str) -> None:
        reply = await self._connections.send("POST", self.address.path.rstrip("/") + path, b"")
        if not reply.ok:
            raise RequestFailed(
                f"http {reply.status}",
                f"`{self.address.name}` answered {path} with status {reply.status}",
                hint="start vLLM with --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1",
            )


def _headers(entry: BackendEntry) -> Mapping[str, str]:
    if entry.key_env is None:
        return {}
    key = os.environ.get(entry.key_env)
    if not key:
        raise ServingError(
            f"The environment variable {entry.key_env} is empty, but {entry.address.name} needs its key.",
            hint=f"Set {entry.key_env} before the server starts.",
        )
    return {"Authorization": f"Bearer {key}"}
