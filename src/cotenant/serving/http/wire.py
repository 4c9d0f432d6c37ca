"""One HTTP connection between uvicorn, which accepts and closes it, and an ASGI application.

It does what uvicorn's own class does, in fewer steps: a head that was just parsed isn't parsed again, the head and the
body of an answer leave together, one timer serves a connection instead of one per request, and the end of a request
wakes nothing.
"""

import asyncio
import logging
from collections import deque
from typing import Any, NamedTuple
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.flow_control import service_unavailable

from cotenant.serving.http.exchange import Direct, Exchange

log = logging.getLogger(__name__)

_INVALID = b"Invalid HTTP request received."


class _Known(NamedTuple):
    """A request whose head the parser has read: one with the same bytes and as long a body means the same."""

    head: bytes
    size: int
    """Of head and body."""
    scope: dict[str, Any]


class Connection(asyncio.Protocol):
    """The protocol class for uvicorn's `http` setting."""

    def __init__(
        self, config: Any, server_state: Any, app_state: Any = None, _loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        del app_state
        if not config.loaded:
            config.load()
        self.state = server_state
        self.loop = _loop or asyncio.get_running_loop()
        self.transport: asyncio.Transport = None  # type: ignore[assignment] # until the connection is made
        self._app = config.loaded_app
        self._direct = config.loaded_app if isinstance(config.loaded_app, Direct) else None
        self._limit = config.limit_concurrency
        self._keep_alive_s = config.timeout_keep_alive
        self._parser: Any = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn: requests sent ahead
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._expects = False
        self._begun = 0
        """Requests that began with what has arrived last."""
        self._within = False
        """Whether the parser is inside a request."""
        self._known: _Known | None = None
        self._latest: Exchange | None = None
        self._new: tuple[Exchange, Any] | None = None
        """A request to start when all that has arrived is parsed: its body may be complete by then."""
        self._ahead: deque[tuple[Exchange, Any]] = deque()
        """Requests sent before the one ahead of them was answered."""
        self._active_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._writable: asyncio.Future[None] | None = None
        self._reading = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self.transport = transport  # type: ignore[assignment]
        self.state.connections.add(self)
        self._active_s = self.loop.time()
        self._timer = self.loop.call_later(self._keep_alive_s, self._close_if_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone: nothing it asked for is of use."""
        del exc
        self.state.connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        self._ahead.clear()
        if self._latest is not None:
            self._latest.leave()
        self.resume_writing()
        self._parser = None

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived."""
        known = self._known
        if known is not None and len(data) == known.size and data.startswith(known.head) and self._is_free:
            exchange = self._begin(known.scope, keep=True, expects=False)
            exchange.take(data[len(known.head) :])
            exchange.complete()
        else:
            self._parse(data)
        if self._new is not None:
            (exchange, app), self._new = self._new, None
            self._start(exchange, app)

    def _parse(self, data: bytes) -> None:
        self._begun, within = 0, self._within
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            log.debug("a client asked for another protocol and is answered in HTTP/1.1")
        except httptools.HttpParserError:
            self._new = None
            log.warning("invalid HTTP request received")
            head = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
            self.transport.write(b"%scontent-length: %d\r\n\r\n%s" % (head, len(_INVALID), _INVALID))
            self.transport.close()
        else:
            whole = self._begun == 1 and not within and not self._within
            self._known = self._remembered(data) if whole else None

    def _remembered(self, data: bytes) -> _Known | None:
        """What the parser made of one request, unless more than its head and the length of its body decided on it."""
        exchange = self._latest
        if exchange is None or not exchange.keep or self._expects:
            return None
        length = 0
        for name, value in self._headers:
            if name == b"transfer-encoding":
                return None
            if name == b"content-length":
                length = int(value)
        return _Known(data[: len(data) - length], len(data), exchange.scope)

    @property
    def _is_free(self) -> bool:
        """Whether neither the parser nor the application is busy with a request."""
        return not self._within and (self._latest is None or self._latest.answered)

    def _begin(self, scope: dict[str, Any], *, keep: bool, expects: bool) -> Exchange:
        """A request, to be started when what has arrived of it is read, or after those before it."""
        before, app, state = self._latest, self._app, self.state
        self._latest = exchange = Exchange(self, scope, keep=keep, expects=expects)
        if self._limit is not None and max(len(state.connections), len(state.tasks)) >= self._limit:
            log.warning("there are too many connections")
            app = service_unavailable
        if before is None or before.answered:
            self._new = exchange, app
        else:
            self._pause_reading()
            self._ahead.append((exchange, app))
        return exchange

    def _start(self, exchange: Exchange, app: Any) -> None:
        if self._direct is not None and app is self._direct and exchange.is_complete:
            exchange.ask(self._direct)
        else:
            exchange.start(app)

    def on_message_begin(self) -> None:
        """Called by the parser."""
        self._url, self._headers, self._expects = b"", [], False
        self._begun += 1
        self._within = True

    def on_url(self, url: bytes) -> None:
        """Called by the parser, perhaps with a part of it."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser."""
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects = True
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """A request begins."""
        parser = self._parser
        method = parser.get_method().decode("ascii")
        path, query = _target(self._url)
        keep = parser.should_keep_alive() and parser.get_http_version() != "1.0"
        scope = {"type": "http", "method": method, "path": path, "query_string": query, "headers": self._headers}
        self._begin(scope, keep=keep, expects=self._expects)

    def on_body(self, body: bytes) -> None:
        """A piece of a body has arrived."""
        if self._latest is not None and self._latest.take(body):
            self._pause_reading()

    def on_message_complete(self) -> None:
        """The body is complete."""
        self._within = False
        if self._latest is not None:
            self._latest.complete()

    def answered(self, exchange: Exchange) -> None:
        """An exchange has ended; the next may begin."""
        self.state.total_requests += 1
        if not exchange.keep:
            self.transport.close()
            return
        self._active_s = self.loop.time()
        if not self._reading:
            self.resume_reading()
        if self._ahead:
            self.loop.call_soon(self._start_next)  # not at once: the end of the answered request isn't counted yet

    def _start_next(self) -> None:
        if self._ahead and not self.transport.is_closing():
            self._start(*self._ahead.popleft())

    def shutdown(self) -> None:
        """Called by uvicorn: close the connection after the current request."""
        if self._latest is None or self._latest.answered:
            self.transport.close()
        else:
            self._latest.keep = False

    def pause_writing(self) -> None:
        """The client reads too slowly."""
        self._writable = self._writable or self.loop.create_future()

    def resume_writing(self) -> None:
        """The client has read."""
        if self._writable is not None:
            self._writable.set_result(None)
            self._writable = None

    async def writable(self) -> None:
        """Wait until the client has read enough."""
        while self._writable is not None:
            await asyncio.shield(self._writable)

    @property
    def is_paused(self) -> bool:
        """Whether an answer has to wait for the client."""
        return self._writable is not None

    def resume_reading(self) -> None:
        """The application has taken what had arrived."""
        if not self._reading:
            self._reading = True
            self.transport.resume_reading()

    def _pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self.transport.pause_reading()

    def _close_if_idle(self) -> None:
        """A connection without a request for long enough is closed, one whose request never ends to arrive included."""
        busy = self._latest is not None and not self._latest.answered
        left_s = self._keep_alive_s if busy else self._active_s + self._keep_alive_s - self.loop.time()
        if left_s <= 0:
            self.transport.close()
        else:
            self._timer = self.loop.call_later(left_s, self._close_if_idle)


def _target(url: bytes) -> tuple[str, bytes]:
    """The path, unquoted, and the query of a request's target."""
    if url[:1] == b"/" and b"#" not in url:
        raw, _, query = url.partition(b"?")
    else:
        parsed = httptools.parse_url(url)
        raw, query = parsed.path or b"", parsed.query or b""
    path = raw.decode("ascii")
    return unquote(path) if "%" in path else path, query
