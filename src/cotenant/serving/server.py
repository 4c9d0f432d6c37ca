"""The server: a service behind HTTP and gRPC, with draining, limits, and no public address without keys and TLS."""

import asyncio
import gc
import ipaddress
import logging
import math
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from cotenant.devices import find_device
from cotenant.errors import CotenantError, ServingError
from cotenant.interruption import ONE_WISH_S
from cotenant.measure.locking import device_lock
from cotenant.serving.http.app import Application
from cotenant.serving.http.listener import listener_at, tls_of
from cotenant.serving.http.listener import listening as answering
from cotenant.serving.http.messages import HttpLimits, Responder
from cotenant.serving.promises import PromiseCounts
from cotenant.serving.recording import MOST_BYTES, Recorder
from cotenant.serving.reloader import opened
from cotenant.serving.service import Service
from cotenant.serving.tenants_file import TenantsFile
from cotenant.serving.tracing import trace
from cotenant.tenancy.device_names import DeviceName
from cotenant.workloads.servers import STARTED_BY_RUN

log = logging.getLogger(__name__)

PORT = 8700


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
    limits: HttpLimits | None = None
    grpc_port: int | None = None
    """None: no gRPC."""
    behind: Callable[[Application, Service], Responder] | None = None
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
    ended: Callable[[Service], None] | None = None,
) -> None:
    """Serve until a signal arrives, then finish accepted requests.

    Args:
        file: The tenants file.
        listening: Where to listen.
        ready: Called with the address once requests can be sent.
        again: Rereads the file on SIGHUP or at the admin's request.
        ended: Called once everything was answered and recorded.

    Raises:
        ServingError: The file can't be served, or not at this address.
        DeviceBusy: A run or another server uses the device.
    """
    check_exposure(file, listening)
    tls = tls_of(listening.tls_cert, listening.tls_key)
    with listener_for(listening) as listener, _device_held(file, listening, url_of(listener, listening)):
        async with opened(file, again=_checked(again, listening)) as service:
            trace(service.measures)
            counts = PromiseCounts(service)
            service.judged, service.promises = counts.judged, counts.to_json
            service.page = None if listening.page is None else listening.page.encode()
            application = Application(service)
            responder = listening.behind(application, service) if listening.behind else application
            async with _grpc(service, listening), _recorded(service, file, listening), _reloading_on_sighup(service):
                with _Stopping(service, listening.drain_s) as stopping:
                    ready(url_of(listener, listening), service)
                    gc.collect()
                    gc.freeze()  # what exists now stays: keep the collector from walking it while requests wait
                    try:
                        async with answering(responder, listener, listening.limits, tls) as server:
                            await stopping.done.wait()
                            server.grace_s = 0.0 if stopping.forced else server.grace_s
                    finally:
                        gc.unfreeze()  # else nothing frees the types of compiled modules, which complain at the exit
            if ended is not None:
                ended(service)


@contextmanager
def _device_held(file: TenantsFile, listening: Listening, url: str) -> Iterator[None]:
    """Hold the device, so that no second server and no run uses it. On a cluster, the server's keeper does.

    Raises:
        DeviceBusy: Names who holds it.
        DeviceError: There is no such device here.
    """
    own = any(tenant.backend is None for tenant in file.tenants.values())
    held_for_us = STARTED_BY_RUN in os.environ or listening.behind is not None
    if not own or held_for_us or DeviceName(file.device).simulated:
        yield
        return
    with device_lock(find_device(file.device).lock_keys(), run=f"serve {url}", purpose="serve"):
        yield


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
        with suppress(CotenantError):  # logged where it is reloaded
            await reload()

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
    from cotenant.serving.grpc.listener import listening as over_grpc

    limits = listening.limits or HttpLimits()
    tls = (listening.tls_cert, listening.tls_key) if listening.tls_cert and listening.tls_key else None
    async with over_grpc(
        service, listening.host, listening.grpc_port, body=limits.body, calls=limits.connections, tls=tls
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
    service.record = recorder.state
    if service.reload is not None:
        service.reload = _after(recorder.cut, service.reload)
    try:
        yield
    finally:
        await recorder.close()


class _Stopping:
    """Drains on the first signal and stops at once on the second."""

    def __init__(self, service: Service, drain_s: float) -> None:
        self._service, self._drain_s = service, drain_s
        self._loop = asyncio.get_running_loop()
        self._asked_s = -math.inf
        self._draining: asyncio.Task[None] | None = None
        self.done = asyncio.Event()
        self.forced = False

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._on_signal, number)
        return self

    def __exit__(self, *_: object) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.remove_signal_handler(number)
        if self._draining is not None:
            self._draining.cancel()

    def _on_signal(self, number: int) -> None:
        again = time.monotonic() - self._asked_s < ONE_WISH_S
        self._asked_s = time.monotonic()
        if again:  # one request, sent to the process and to its group
            return
        if self._draining is None:
            self._service.draining = True
            self._draining = self._loop.create_task(self._drain())
        elif number == signal.SIGTERM:
            os._exit(143)
        else:
            self.forced = True
            self.done.set()

    async def _drain(self) -> None:
        try:
            await self._service.drain(self._drain_s)
        finally:
            self.done.set()


def listener_for(listening: Listening) -> socket.socket:
    """A socket that listens already. Raises ServingError."""
    try:
        return listener_at(listening.host, listening.port)
    except OSError as error:
        raise ServingError(
            f"{listening.host}:{listening.port} can't be listened on: {(error.strerror or str(error)).lower()}.",
            hint="Choose another port; --port 0 finds a free one.",
        ) from None
