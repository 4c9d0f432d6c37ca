"""The server: a service behind uvicorn, with draining, limits, and no public address without keys and TLS."""

import asyncio
import gc
import ipaddress
import logging
import math
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from cotenant.errors import CotenantError, ServingError
from cotenant.interruption import ONE_WISH_S
from cotenant.serving.http.app import Application
from cotenant.serving.http.asgi import Limits
from cotenant.serving.opening import opened
from cotenant.serving.recording import MOST_BYTES, Recorder
from cotenant.serving.service import Service
from cotenant.serving.tenants_file import TenantsFile
from cotenant.serving.tracing import trace

log = logging.getLogger(__name__)

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
    """Folder for recorded traffic; None to disable."""
    record_most: int = MOST_BYTES
    page: str | None = None
    """The live page."""
    limits: Limits | None = None
    grpc_port: int | None = None
    """None: no gRPC."""
    behind: Callable[[Application, Service], Any] | None = None
    """Wraps the application of a server that only front ends of a cluster may reach; it checks who connects."""


def check_exposure(file: TenantsFile, listening: Listening) -> None:
    """Refuse to listen on a public address without keys and TLS.

    Raises:
        ServingError: Names what is missing.
    """
    if (listening.tls_cert is None) != (listening.tls_key is None):
        raise ServingError("TLS needs both a certificate and its key.", hint="Give --tls-cert and --tls-key.")
    if is_local(listening.host) or listening.behind is not None:
        return
    missing = [name for name, tenant in file.tenants.items() if tenant.key is None]
    if missing or file.admin_key is None:
        who = f"tenant {missing[0]} has" if missing else "the admin has"
        raise ServingError(
            f"{listening.host} is a public address, and {who} no key.",
            hint="`cotenant serve --new-key` makes a key; put its hash under `key:` (or `admin_key:`).",
        )
    if listening.tls_cert is None:
        raise ServingError(
            f"{listening.host} is a public address, and keys would be sent unencrypted.",
            hint="Give --tls-cert and --tls-key, or listen on 127.0.0.1 behind a proxy.",
        )


def is_local(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def serve(
    file: TenantsFile,
    listening: Listening,
    *,
    ready: Callable[[str, Service], None],
    again: Callable[[], TenantsFile] | None = None,
) -> None:
    """Serve until a signal arrives, then finish accepted requests.

    Args:
        file: The tenants file.
        listening: Where to listen.
        ready: Called with the address once requests can be sent.
        again: Rereads the file on SIGHUP or at the admin's request.

    Raises:
        ServingError: The file can't be served, or not at this address.
    """
    import uvicorn

    check_exposure(file, listening)
    with listener_at(listening) as listener:
        async with opened(file, again=_checked(again, listening)) as service:
            trace(service.measures)
            service.page = None if listening.page is None else listening.page.encode()
            application = Application(service, listening.limits or Limits())
            config = uvicorn_config(
                listening.behind(application, service) if listening.behind else application, listening
            )
            server = _server(uvicorn, config, service, listening.drain_s)
            async with _grpc(service, listening), _recorded(service, file, listening), _reloading_on_sighup(service):
                ready(url_of(listener, listening), service)
                gc.collect()
                gc.freeze()  # what exists now stays: keep the collector from walking it while requests wait
                await server.serve(sockets=[listener])


def uvicorn_config(application: Any, listening: Listening) -> Any:
    """Uvicorn's settings for an application."""
    import uvicorn

    from cotenant.serving.http.wire import Connection

    return uvicorn.Config(
        application,
        http=Connection,
        ws="none",
        proxy_headers=False,
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


def url_of(listener: socket.socket, listening: Listening) -> str:
    """The address that clients use."""
    host, port = listener.getsockname()[:2]
    return f"{'https' if listening.tls_cert else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def _checked(again: Callable[[], TenantsFile] | None, listening: Listening) -> Callable[[], TenantsFile] | None:
    """Reread the file; reject it if it would open the server without keys."""
    if again is None:
        return None
    read = again

    def checked() -> TenantsFile:
        file = read()
        check_exposure(file, listening)
        return file

    return checked


@asynccontextmanager
async def _reloading_on_sighup(service: Service) -> AsyncIterator[None]:
    if service.reload is None:
        yield
        return
    reload, loop = service.reload, asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()

    async def again() -> None:
        try:
            done = await reload()
        except CotenantError as error:
            log.warning("the file was rejected, and nothing changes: %s", error)
        else:
            log.warning("the file was reloaded: %s", done)

    def on_signal() -> None:
        task = loop.create_task(again())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    loop.add_signal_handler(signal.SIGHUP, on_signal)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _after(
    first: Callable[[], Awaitable[None]], then: Callable[[], Awaitable[dict[str, Any]]]
) -> Callable[[], Awaitable[dict[str, Any]]]:
    async def both() -> dict[str, Any]:
        await first()
        return await then()

    return both


@asynccontextmanager
async def _grpc(service: Service, listening: Listening) -> AsyncIterator[None]:
    if listening.grpc_port is None:
        yield
        return
    from cotenant.serving.grpc.server import listening as over_grpc

    limits = listening.limits or Limits()
    tls = (listening.tls_cert, listening.tls_key) if listening.tls_cert and listening.tls_key else None
    async with over_grpc(
        service, listening.host, listening.grpc_port, body=limits.body, calls=CONNECTIONS, tls=tls
    ) as address:
        service.grpc = address
        yield


@asynccontextmanager
async def _recorded(service: Service, file: TenantsFile, listening: Listening) -> AsyncIterator[None]:
    if listening.record is None:
        yield
        return
    recorder = Recorder(service, file, listening.record, most_bytes=listening.record_most)
    recorder.open()
    if service.reload is not None:
        service.reload = _after(recorder.cut, service.reload)
    try:
        yield
    finally:
        await recorder.close()


def _server(uvicorn: Any, config: Any, service: Service, drain_s: float) -> Any:
    """A uvicorn server that drains on the first signal and stops at once on the second."""

    class Server(uvicorn.Server):  # type: ignore[misc]
        draining: asyncio.Task[None] | None = None
        asked_s = -math.inf

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            del frame
            loop = service_loop
            again = time.monotonic() - self.asked_s < ONE_WISH_S
            self.asked_s = time.monotonic()
            if again:  # one request, sent to the process and to its group
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
            await asyncio.sleep(0.05)  # let final answers reach their clients
            self.should_exit = True

    service_loop = asyncio.get_running_loop()
    return Server(config)


def listener_at(listening: Listening) -> socket.socket:
    """A socket that listens already. Raises ServingError."""
    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((listening.host, listening.port))
        listener.listen(CONNECTIONS)  # clients can connect from here on; they are answered once the tenants are ready
    except OSError as error:
        listener.close()
        raise ServingError(
            f"{listening.host}:{listening.port} can't be listened on: {(error.strerror or str(error)).lower()}.",
            hint="Choose another port; --port 0 finds a free one.",
        ) from None
    return listener
