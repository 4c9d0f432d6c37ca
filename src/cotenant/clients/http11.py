"""HTTP/1.1 from one event loop: keep-alive connections, one request on each at a time, bodies passed on as they arrive.

`framing` parses the answers; the sockets are asyncio's, or for a client that measures those of `arrivals`. What
arrives is passed to the request's sink in the same step of the loop that read it, unless the request is patient: then
events of a stream are kept with their times and parsed several at once, since a process that slept takes several times
as long for each.
"""

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import cast

from cotenant.clients import arrivals
from cotenant.clients.address import Address
from cotenant.clients.alarm import Deadlines
from cotenant.clients.arrivals import ArrivalTransport
from cotenant.clients.framing import Framing, HttpReply, NotHttp
from cotenant.errors import RequestFailed

LARGEST_ANSWER = 256 << 20
_MOST_KEPT = 16
"""Pieces parsed at once: more would delay requests that become due meanwhile."""
_EVENT_END = b"\n\n\r\n"
"""The end of an event in a chunk of its own. An answer in chunks always ends with two line ends instead."""
Sink = Callable[[bytes], None]
Begun = Callable[[HttpReply], None]
Headers = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds that a client waits for each step of a request; without limits of their own, steps share ``whole_s``."""

    whole_s: float
    connect_s: float = math.inf
    first_s: float = math.inf
    """From the request to the first byte of its answer."""
    between_s: float = math.inf
    """From one piece of the answer to the next."""
    hint: str = "`params: {timeout_s: ...}` waits longer"


@dataclass(slots=True)
class AnswerTiming:
    """Times of one request, on the monotonic clock."""

    sent_ns: int = 0
    """Just before it was written, or before connecting where that was necessary."""
    arrived_ns: int = 0
    """When the part of the answer last passed on arrived."""

    def sending(self) -> None:
        """It is about to be sent, perhaps again."""
        self.sent_ns = self.sent_ns or time.monotonic_ns()


class _Dropped(Exception):
    """The server closed the connection before sending anything."""


class _Connection(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self) -> None:
        self._framing = Framing(self._head, self._body)
        self._transport: asyncio.Transport | None = None
        self._stamped: ArrivalTransport | None = None
        """The transport, if it knows when data arrived."""
        self._sink: Sink | None = None
        self._begun: Begun | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._heard = False
        self._timing: AnswerTiming | None = None
        self._patient = False
        self._kept: list[tuple[int, bytes]] = []
        """Pieces not yet parsed, with their times of arrival."""
        self._done: asyncio.Future[HttpReply] | None = None
        self.answered = 0
        self.open = True
        self.heard: Callable[[], None] | None = None
        """Called with every piece of the answer that arrives."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are not subclasses
        self._stamped = transport if isinstance(transport, ArrivalTransport) else None

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        if self._done is not None and not self._done.done():
            self._end_of_input(exc)

    def eof_received(self) -> None:
        self.open = False
        if self._done is not None and not self._done.done():
            self._end_of_input(None)

    def data_received(self, data: bytes) -> None:
        self._heard = True
        if self._done is None or self._done.done():
            self.close()  # unsolicited data
            return
        if self.heard is not None:
            self.heard()
        self._kept.append((time.monotonic_ns() if self._stamped is None else self._stamped.arrived_ns, data))
        more = self._patient and data.endswith(_EVENT_END) and self._framing.chunked
        if not more or len(self._kept) == _MOST_KEPT:
            self.parse()

    def parse(self) -> None:
        """Pass on what has been kept, as if it arrived now."""
        kept, self._kept = self._kept, []
        try:
            for arrived_ns, data in kept:
                if self._timing is not None:
                    self._timing.arrived_ns = arrived_ns
                self._framing.feed(data)
                self._check_size(self._framing.left)
        except NotHttp as error:
            self._fail(RequestFailed("not http", f"the server does not answer in HTTP: {error}"))
        except Exception as error:  # noqa: BLE001 - a sink's error is its request's, not the loop's
            self._fail(error)
        else:
            if self._framing.done:
                self._finish()

    def send(
        self,
        data: bytes,
        sink: Sink | None,
        begun: Begun | None,
        timing: AnswerTiming | None,
        *,
        to_head: bool,
        patient: bool,
    ) -> "asyncio.Future[HttpReply]":
        """Write a request; the future completes with its answer."""
        assert self._transport is not None
        self._sink, self._begun, self._parts, self._size, self._heard = sink, begun, [], 0, False
        self._timing, self._patient, self._kept = timing, patient, []
        self.heard = None
        self._framing.begin(to_head=to_head)
        self._done = asyncio.get_running_loop().create_future()
        if timing is not None:
            timing.sending()
        self._transport.write(data)
        return self._done

    @property
    def answering(self) -> bool:
        """Whether a part of the answer has arrived."""
        return self._heard

    def close(self) -> None:
        """Drop it."""
        self.open = False
        if self._transport is not None:
            self._transport.abort()

    def _head(self, reply: HttpReply) -> None:
        if self._begun is not None:
            self._begun(reply)

    def _body(self, data: bytes) -> None:
        self._size += len(data)
        self._check_size()
        if self._sink is not None and self._framing.reply.ok:
            self._sink(data)
        else:
            self._parts.append(data)

    def _check_size(self, announced: int = 0) -> None:
        if self._size + announced > LARGEST_ANSWER:
            raise RequestFailed("too long", f"the answer is longer than {LARGEST_ANSWER >> 20} MiB")

    def _finish(self) -> None:
        assert self._done is not None
        reply = self._framing.reply
        reply.body = b"".join(self._parts)
        self.answered += 1
        if not self._framing.keep:
            self.close()
        self._done.set_result(reply)

    def _end_of_input(self, exc: Exception | None) -> None:
        """Some answers end with the connection; any other is incomplete."""
        self.parse()
        if self._done is None or self._done.done():
            return
        if not self._heard:
            self._fail(_Dropped(_said(exc) if exc else "it closed the connection"))
        elif self._framing.end():
            self._finish()
        else:
            self._fail(RequestFailed("broken off", "the server closed the connection in the middle of an answer"))

    def _fail(self, error: Exception) -> None:
        self.close()
        if self._done is not None and not self._done.done():
            self._done.set_exception(error)


class Connections:
    """Keep-alive connections to one address: as many as requests in flight."""

    def __init__(self, address: Address, timeouts: float | Timeouts, headers: Mapping[str, str]) -> None:
        self._address = address
        self._timeouts = timeouts if isinstance(timeouts, Timeouts) else Timeouts(timeouts)
        own = {name: value for name, value in headers.items() if name.lower() != "host"}
        self._head = _lines({"Host": address.authority, "User-Agent": "cotenant", **own})
        """Common to all requests, encoded once."""
        self._idle: list[_Connection] = []
        self.heard_ns = 0
        """When any answer last continued; only known where pieces have a timeout."""
        self._deadlines = Deadlines()

    async def send(
        self,
        method: str,
        target: str,
        body: bytes | None,
        sink: Sink | None = None,
        *,
        headers: Headers | None = None,
        sent: Callable[[], None] | None = None,
        begun: Begun | None = None,
        timing: AnswerTiming | None = None,
        patient: bool = False,
        within_s: float = math.inf,
    ) -> HttpReply:
        """Send one request and return its answer, over a new connection if none is idle.

        A server may close an idle connection just as a request is written to it: only then it is sent again.
        ``begun`` is called with the head of the answer, before its body goes to the sink; ``timing`` is kept current.
        A ``patient`` sink may get parts of the body later than they arrive, with the right ``timing``. ``within_s``
        shortens the timeout of this request.
        """
        more = dict(headers or {}) | ({} if body is None else {"Content-Length": str(len(body))})
        data = f"{method} {target} HTTP/1.1\r\n".encode("latin-1") + self._head + _lines(more) + b"\r\n" + (body or b"")
        connection: _Connection | None = None
        timeouts = self._timeouts
        whole_s = min(within_s, timeouts.whole_s)
        until_ns = time.monotonic_ns() + int(whole_s * 1e9)
        try:
            while True:
                connection = self._idle.pop() if self._idle else None
                if connection is not None and not connection.open:
                    continue
                kept = connection is not None
                connection = connection or await self._connect(timing, min(timeouts.connect_s, whole_s))
                to_head = method == "HEAD"
                answer = connection.send(data, sink, begun, timing, to_head=to_head, patient=patient)
                if sent is not None:
                    sent()
                self._watch(connection, answer, until_ns)
                try:
                    reply = await answer
                except _Dropped as error:
                    if kept:
                        continue
                    raise self._failed("connection", f"closed the connection without an answer: {error}") from None
                finally:
                    self._deadlines.forget(answer)
                break
        except TimeoutError:
            _drop(connection)
            raise self._late(connection, until_ns, whole_s) from None
        except OSError as error:
            _drop(connection)
            raise self._failed("connection", f"can't be reached: {_said(error)}") from None
        except BaseException:
            _drop(connection)
            raise
        if connection.open:
            self._idle.append(connection)
        return reply

    async def close(self) -> None:
        """Drop them all."""
        while self._idle:
            self._idle.pop().close()
        self._deadlines.close()
        await asyncio.sleep(0)

    def _watch(self, connection: _Connection, answer: "asyncio.Future[HttpReply]", until_ns: int) -> None:
        if self._timeouts.between_s < math.inf:
            connection.heard = partial(self._heard, answer, until_ns)
        self._deadlines.watch(answer, _sooner(until_ns, self._timeouts.first_s))

    def _heard(self, answer: "asyncio.Future[HttpReply]", until_ns: int) -> None:
        self.heard_ns = time.monotonic_ns()
        self._deadlines.watch(answer, _sooner(until_ns, self._timeouts.between_s))

    def _late(self, connection: _Connection | None, until_ns: int, whole_s: float) -> RequestFailed:
        """Says which timeout was exceeded."""
        timeouts = self._timeouts
        if connection is None:
            waited_s = min(timeouts.connect_s, whole_s)
            what = f"accepted no connection within {waited_s:g} s"
        elif time.monotonic_ns() >= until_ns:
            waited_s = whole_s
            what = f"sent no {'complete ' if connection.answering else ''}answer within {waited_s:g} s"
        elif connection.answering:
            waited_s = timeouts.between_s
            what = f"sent nothing for {waited_s:g} s in the middle of an answer"
        else:
            waited_s = timeouts.first_s
            what = f"sent no answer within {waited_s:g} s"
        message = f"`{self._address.name}` {what}"
        return RequestFailed("timeout", message, hint=timeouts.hint, waited_s=waited_s)

    async def _connect(self, timing: AnswerTiming | None, within_s: float) -> _Connection:
        loop = asyncio.get_running_loop()
        address = self._address
        if timing is not None:
            timing.sending()
        async with asyncio.timeout(within_s):
            if timing is not None and arrivals.AVAILABLE and not address.tls:
                connection = _Connection()
                await arrivals.connect(address.host, address.port, connection)
                return connection
            _, connection = await loop.create_connection(
                _Connection, address.host, address.port, ssl=True if address.tls else None
            )
            return connection

    def _failed(self, kind: str, what: str) -> RequestFailed:
        return RequestFailed(kind, f"`{self._address.name}` {what}")


def refused(name: str, reply: HttpReply) -> RequestFailed:
    """The error for an answer with an unexpected status, with the first line of the server's message."""
    lines = reply.body[:400].decode(errors="replace").strip().splitlines()
    reason = "".join(c if c.isprintable() else "?" for c in lines[0][:200]) if lines else ""
    moved = reply.headers.get("location")
    return RequestFailed(
        f"http {reply.status}",
        f"`{name}` answered {reply.status} {reply.reason}".rstrip() + (f": {reason}" if reason else ""),
        hint=f"it redirects to {moved}: name that address" if moved else "check the server's log",
    )


def _lines(headers: Headers) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")


def _sooner(until_ns: int, seconds: float) -> int:
    """The earlier of a deadline and so many seconds from now."""
    return until_ns if seconds == math.inf else min(until_ns, time.monotonic_ns() + int(seconds * 1e9))


def _drop(connection: _Connection | None) -> None:
    if connection is not None:
        connection.close()


def _said(error: BaseException) -> str:
    text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return text[:1].lower() + text[1:].rstrip(".")
