"""Accept connections, within limits: when all places are taken, those that do nothing make room."""

import asyncio
import errno
import logging
import os
import resource
import socket
import ssl
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from email.utils import formatdate
from pathlib import Path

from cotenant.errors import ServingError
from cotenant.serving.http.connection import HttpConnection
from cotenant.serving.http.messages import HttpLimits, Responder

log = logging.getLogger(__name__)

BACKLOG = 1024
AT_ONCE = 16
"""Connections accepted in one turn of the loop."""
PAUSE_S = 0.5
"""Pause after the system had no room for another connection."""
STALLED_S = 1.0
"""A client that sends nothing of its body for this long makes room for another when all places are taken."""
HANDSHAKE_S = 10.0
GRACE_S = 10.0
"""Time for clients to read their last answers when the server stops."""
FILES_KEPT = 24
"""Open files left for everything but connections."""
_FULL = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class HttpServer:
    """All connections of a listening socket."""

    def __init__(
        self, responder: Responder, listener: socket.socket, limits: HttpLimits, tls: ssl.SSLContext | None
    ) -> None:
        self.responder, self.limits = responder, limits
        self.loop = asyncio.get_running_loop()
        self.idle: OrderedDict[HttpConnection, None] = OrderedDict()
        """Connections without a complete head, the longest idle first."""
        self.sending: OrderedDict[HttpConnection, None] = OrderedDict()
        """Connections whose body is arriving, the longest silent first."""
        self.body_bytes = 0
        """Of bodies that count against their common limit."""
        self.stopping = False
        self.grace_s = GRACE_S
        self._listener, self._tls = listener, tls
        self._connections: dict[HttpConnection, asyncio.Task[None] | None] = {}
        """With the task that opens them."""
        self._per_address: Counter[str] = Counter()
        self._most = min(limits.connections, _files_left())
        self._surplus_most = max(1, min(64, self._most // 8))
        self._surplus = 0
        self._gone = asyncio.Event()
        self._date, self._date_s = "", 0
        self._prefix, self._count = os.urandom(6).hex(), 0
        self._look_s = min(1.0, max(0.01, min(limits.idle_s, limits.head_s, limits.body_s, limits.send_s) / 4))
        self._timer: asyncio.TimerHandle | None = None
        self._pause: asyncio.TimerHandle | None = None

    @property
    def port(self) -> int:
        """The port that clients connect to."""
        return int(self._listener.getsockname()[1])

    def date(self) -> str:
        """The time for the header `Date`."""
        now = int(time.time())
        if now != self._date_s:
            self._date, self._date_s = formatdate(now, usegmt=True), now
        return self._date

    def new_id(self) -> str:
        """A name for a request, unique among all servers."""
        self._count += 1
        return f"{self._prefix}-{self._count:x}"

    def start(self) -> None:
        """Begin to accept."""
        self._listener.setblocking(False)
        self._listener.listen(BACKLOG)
        self.loop.add_reader(self._listener.fileno(), self._accept)
        self._timer = self.loop.call_later(self._look_s, self._look)

    async def stop(self) -> None:
        """Accept no more, close idle connections, and wait until the others have their answers."""
        self.stopping = True
        self.loop.remove_reader(self._listener.fileno())
        if self._pause is not None:
            self._pause.cancel()
        for connection in tuple(self._connections):
            connection.finish()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.grace_s):
                while self._connections:
                    self._gone.clear()
                    await self._gone.wait()
        if self._timer is not None:
            self._timer.cancel()
        for connection, opening in tuple(self._connections.items()):
            if opening is not None:
                opening.cancel()
            if connection.transport is not None:
                connection.transport.abort()
        await asyncio.sleep(0)

    def forget(self, connection: HttpConnection) -> None:
        """A connection is closed."""
        self.idle.pop(connection, None)
        self.sending.pop(connection, None)
        if connection not in self._connections:
            return
        del self._connections[connection]
        self._surplus -= connection.surplus
        self._per_address[connection.address] -= 1
        if not self._per_address[connection.address]:
            del self._per_address[connection.address]
        self._gone.set()

    def _accept(self) -> None:
        for turn in range(AT_ONCE):
            try:
                accepted, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                # Linux reports it before it looks whether anyone waits: only the first time someone surely does.
                if turn == 0 and not self._make_room(None):
                    log.warning("no connection can be accepted for %g s: %s", PAUSE_S, error.strerror)
                    self.loop.remove_reader(self._listener.fileno())
                    self._pause = self.loop.call_later(PAUSE_S, self._resume)
                return
            self._admit(accepted, str(address[0]))

    def _resume(self) -> None:
        self._pause = None
        self.loop.add_reader(self._listener.fileno(), self._accept)

    def _admit(self, accepted: socket.socket, address: str) -> None:
        """Serve a new connection, refuse its request, or close it."""
        crowded = self._per_address[address] >= self.limits.per_address
        full = len(self._connections) - self._surplus >= self._most
        surplus = (crowded and not self._make_room(address)) or (full and not crowded and not self._make_room(None))
        if surplus and self._surplus >= self._surplus_most:
            accepted.close()
            return
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = HttpConnection(self, address, surplus=surplus)
        self._surplus += surplus
        self._per_address[address] += 1
        self.idle[connection] = None
        self._connections[connection] = self.loop.create_task(self._open(connection, accepted))

    async def _open(self, connection: HttpConnection, accepted: socket.socket) -> None:
        try:
            await self.loop.connect_accepted_socket(
                lambda: connection, accepted, ssl=self._tls, ssl_handshake_timeout=HANDSHAKE_S if self._tls else None
            )
        except (OSError, TimeoutError) as error:  # a failed handshake is one of them
            log.debug("a connection could not be opened: %s", error)
            accepted.close()
            self.forget(connection)
        except asyncio.CancelledError:
            accepted.close()
            self.forget(connection)
            raise
        else:
            if connection in self._connections:
                self._connections[connection] = None

    def _make_room(self, address: str | None) -> bool:
        """Close the connection that is idle or stalled for longest, of an address or of any."""
        for connection in self.idle:
            if address in (None, connection.address):
                self._evict(connection)
                return True
        late = self.loop.time() - STALLED_S
        for connection in self.sending:
            if connection.active_s > late:
                break
            if address in (None, connection.address):
                self._evict(connection)
                return True
        return False

    def _evict(self, connection: HttpConnection) -> None:
        opening = self._connections.get(connection)
        self.forget(connection)
        if opening is not None:
            opening.cancel()
        connection.close()

    def _look(self) -> None:
        """Close what waits for too long. One timer serves all connections."""
        now_s = self.loop.time()
        for connection in tuple(self._connections):
            connection.expire(now_s)
        self._timer = self.loop.call_later(self._look_s, self._look)


@asynccontextmanager
async def listening(
    responder: Responder, listener: socket.socket, limits: HttpLimits | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[HttpServer]:
    """A server that accepts connections until the block ends, and then finishes its answers."""
    server = HttpServer(responder, listener, limits or HttpLimits(), tls)
    server.start()
    try:
        yield server
    finally:
        await server.stop()


def listener_at(host: str, port: int) -> socket.socket:
    """A socket that listens already: clients can connect before anything answers. Raises OSError."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def tls_of(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """The settings of TLS; None without a certificate. Raises ServingError."""
    if certificate is None or key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ServingError(
            f"The certificate {certificate} and its key {key} can't be used: {error.strerror or error}.",
            hint="Both are files in PEM format.",
        ) from None
    return context


def _files_left() -> int:
    """How many connections the limit of open files leaves room for."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 1 << 20
    return max(4, soft - len(list(Path("/dev/fd").iterdir())) - FILES_KEPT)
