"""A backend server: pooled connections, health checks, sleep and wake."""

import os
from collections.abc import Mapping
from typing import Any

from cotenant.errors import RequestFailed, ServingError, WorkloadError
from cotenant.serving.backends.entry import BackendEntry
from cotenant.serving.backends.errand import Errand
from cotenant.workloads.servers.framing import Reply
from cotenant.workloads.servers.http11 import Connections

TIMEOUT_S = 600.0
ALIVE = {"openai": "/v1/models", "v2": "/v2/health/ready"}


class Backend:
    """One address. Call all methods from the loop's thread."""

    def __init__(self, entry: BackendEntry) -> None:
        self.entry = entry
        self.address = entry.address
        self.up = True
        self._connections = Connections(self.address, TIMEOUT_S, _headers(entry))

    async def send(self, errand: Errand) -> Reply:
        """Send one request. Cancelling closes the connection, so that the backend stops too.

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

    async def get(self, path: str) -> Reply:
        """A GET request. Raises RequestFailed."""
        return await self._connections.send("GET", self.address.path.rstrip("/") + path, None)

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

    async def alive(self) -> bool:
        """Whether it answers."""
        try:
            return (await self.get(ALIVE[self.entry.protocol])).ok
        except RequestFailed:
            return False

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
