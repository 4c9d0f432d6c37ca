"""The server: a service behind uvicorn, with drains, limits and a refusal to listen to strangers without locks."""

import asyncio
import ipaddress
import math
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from cotenant.errors import ServingError
from cotenant.interruption import ONE_WISH_S
from cotenant.serving.http.app import Application, Limits
from cotenant.serving.opening import opened
from cotenant.serving.recording import MOST_BYTES, Recorder
from cotenant.serving.service import Service
from cotenant.serving.tenants_file import TenantsFile

PORT = 8700
CONNECTIONS = 1024
KEEP_ALIVE_S = 75


@dataclass(frozen=True, slots=True)
class Listening:
    """Where to listen, and how to stop."""

    host: str = "127.0.0.1"
    port: int = PORT
    tls_cert: str | None = None
    tls_key: str | None = None
    drain_s: float = 30.0
    record: Path | None = None
    """Where served traffic is recorded; None: it isn't."""
    record_most: int = MOST_BYTES
    page: str | None = None
    """The live page."""
    limits: Limits | None = None


def check_exposure(file: TenantsFile, listening: Listening) -> None:
    """Refuse to listen beyond this machine without keys and TLS.

    Raises:
        ServingError: with what is missing.
    """
    if (listening.tls_cert is None) != (listening.tls_key is None):
        raise ServingError("TLS needs both a certificate and its key.", hint="Give --tls-cert and --tls-key.")
    try:
        local = ipaddress.ip_address(listening.host).is_loopback
    except ValueError:
        local = listening.host == "localhost"
    if local:
        return
    missing = [name for name, tenant in file.tenants.items() if tenant.key is None]
    if missing or file.admin_key is None:
        who = f"tenant {missing[0]} has" if missing else "the admin has"
        raise ServingError(
            f"{listening.host} can be reached from elsewhere, and {who} no key.",
            hint="`cotenant serve --new-key` makes a key; put its hash under `key:` (or `admin_key:`).",
        )
    if listening.tls_cert is None:
        raise ServingError(
            f"{listening.host} can be reached from elsewhere, and keys would travel in the clear.",
            hint="Give --tls-cert and --tls-key, or listen on 127.0.0.1 behind a proxy.",
        )


async def serve(file: TenantsFile, listening: Listening, *, ready: Callable[[str, Service], None]) -> None:
    """Serve until a signal says to stop; then finish what was accepted.

    Args:
        file: What to serve.
        listening: Where.
        ready: Told the address once requests can be sent.

    Raises:
        ServingError: It can't be served, or not there.
    """
    import uvicorn

    check_exposure(file, listening)
    with _listening(listening) as listener:
        async with opened(file) as service:
            service.page = None if listening.page is None else listening.page.encode()
            config = uvicorn.Config(
                Application(service, listening.limits or Limits()),
                http="httptools",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                limit_concurrency=CONNECTIONS,
                timeout_keep_alive=KEEP_ALIVE_S,
                ssl_certfile=listening.tls_cert,
                ssl_keyfile=listening.tls_key,
            )
            server = _server(uvicorn, config, service, listening.drain_s)
            scheme = "https" if listening.tls_cert else "http"
            address = listener.getsockname()
            async with _recorded(service, file, listening):
                ready(f"{scheme}://{address[0]}:{address[1]}", service)
                await server.serve(sockets=[listener])


@asynccontextmanager
async def _recorded(service: Service, file: TenantsFile, listening: Listening) -> AsyncIterator[None]:
    if listening.record is None:
        yield
        return
    recorder = Recorder(service, file, listening.record, most_bytes=listening.record_most)
    recorder.open()
    try:
        yield
    finally:
        await recorder.close()


def _server(uvicorn: Any, config: Any, service: Service, drain_s: float) -> Any:
    """A server of uvicorn with our way to stop: drain on the first signal, end at once on the second."""

    class Server(uvicorn.Server):  # type: ignore[misc]
        draining: asyncio.Task[None] | None = None
        asked_s = -math.inf

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            del frame
            loop = service_loop
            again = time.monotonic() - self.asked_s < ONE_WISH_S
            self.asked_s = time.monotonic()
            if again:  # one wish, sent to the process and to its group
                return
            if service.draining:
                self.force_exit = self.should_exit = True
                if sig == signal.SIGTERM:
                    os._exit(143)
                return
            loop.call_soon_threadsafe(self.begin_to_drain)

        def begin_to_drain(self) -> None:
            service.draining = True
            self.draining = asyncio.ensure_future(self.drain())

        async def drain(self) -> None:
            await service.drain(drain_s)
            await asyncio.sleep(0.05)  # answers that were just given are on their way
            self.should_exit = True

    service_loop = asyncio.get_running_loop()
    return Server(config)


def _listening(listening: Listening) -> socket.socket:
    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((listening.host, listening.port))
        listener.listen(CONNECTIONS)  # from here on clients can connect; they are answered once the tenants stand
    except OSError as error:
        listener.close()
        raise ServingError(
            f"{listening.host}:{listening.port} can't be listened on: {(error.strerror or str(error)).lower()}.",
            hint="Take another port; --port 0 finds a free one.",
        ) from None
    return listener
