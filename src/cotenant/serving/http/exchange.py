"""One request and its answer on a connection.

A request that has arrived completely is put to an application that can be asked directly: its answer is written the
moment it is known, without a task. Everything else goes through ASGI.
"""

import asyncio
import http
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, runtime_checkable

from cotenant.serving.conduct.pending import Pending
from cotenant.serving.http.messages import Reply

log = logging.getLogger(__name__)

UNREAD = 1 << 20
"""A client that has sent this much of a body waits until the application has taken it."""
JOINED = 1 << 16
"""A longer body isn't copied behind its head."""
_STATUS_LINES = {one.value: f"HTTP/1.1 {one.value} {one.phrase}".encode() for one in http.HTTPStatus}
_DISCONNECT = {"type": "http.disconnect"}
_FAILED = (
    {
        "type": "http.response.start",
        "status": 500,
        "headers": [(b"content-length", b"21"), (b"content-type", b"text/plain"), (b"connection", b"close")],
    },
    {"type": "http.response.body", "body": b"Internal Server Error"},
)

App = Callable[..., Awaitable[None]]


@runtime_checkable
class Direct(Protocol):
    """An ASGI application that can also be asked directly."""

    def ask(self, scope: dict[str, Any], body: bytes) -> Awaitable[Reply]:
        """Begin to answer a request. Raises what `problem` turns into an answer."""
        ...

    def problem(self, error: Exception, scope: dict[str, Any]) -> Reply:
        """The answer that says what went wrong."""
        ...

    def headers_of(self, reply: Reply) -> list[tuple[bytes, bytes]]:
        """The headers of an answer."""
        ...

    async def conclude(
        self,
        answer: Awaitable[Reply],
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[dict[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        """Await an answer and send it."""
        ...


class Line(Protocol):
    """What an exchange needs of its connection."""

    state: Any
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport

    @property
    def is_paused(self) -> bool:
        """Whether an answer has to wait for the client."""
        ...

    async def writable(self) -> None:
        """Wait until the client has read enough."""
        ...

    def resume_reading(self) -> None:
        """The application has taken what had arrived."""
        ...

    def answered(self, exchange: "Exchange") -> None:
        """An exchange has ended."""
        ...


class Exchange:
    """A request whose body may still arrive, and its answer."""

    __slots__ = (
        "_arrived", "_begun", "_chunked", "_expects", "_head", "_line", "_more", "_news", "_pending", "_pieces",
        "_task", "_unread", "answered", "gone", "keep", "scope",
    )  # fmt: skip

    def __init__(self, line: Line, scope: dict[str, Any], *, keep: bool, expects: bool) -> None:
        self.keep = keep
        """Whether the connection stays open."""
        self.answered = False
        self.gone = False
        self._line = line
        self.scope = scope
        self._expects = expects
        """Whether the client waits for a `100 Continue`."""
        self._pieces: list[bytes] = []
        self._unread = 0
        self._more = True
        self._arrived = False
        self._news: asyncio.Future[None] | None = None
        self._begun = False
        self._head: bytes | None = None
        """The head of the answer, held back until something follows it: the client is woken once."""
        self._chunked = False
        self._task: asyncio.Task[None] | None = None
        self._pending: Pending[Reply] | None = None

    def start(self, app: App) -> None:
        """Let an ASGI application answer."""
        self._run(app(self.scope, self.receive, self.send))

    def ask(self, app: Direct) -> None:
        """Put a request that has arrived completely to an application."""
        scope = self.scope
        try:
            answer = app.ask(scope, self._taken())
        except Exception as error:  # noqa: BLE001 - every failure becomes an answer
            answer = Pending[Reply]()
            answer.resolve(error=error)
        if isinstance(answer, Pending):
            self._pending = answer
            answer.then(lambda pending: self._write(app, pending))
        else:
            self._run(app.conclude(answer, scope, self.receive, self.send))

    def take(self, piece: bytes) -> bool:
        """A piece of the body; returns whether the client has to wait until the application has taken some of it.

        The application is woken for much of a body or all of it: for each piece it would only ask for the next.
        """
        if self.answered:
            return False
        self._pieces.append(piece)
        self._unread += len(piece)
        if self._unread <= UNREAD:
            return False
        self._tell()
        return True

    def complete(self) -> None:
        """The body is complete."""
        self._more = False
        self._tell()

    @property
    def is_complete(self) -> bool:
        """Whether the application needs to wait for nothing."""
        return not self._more

    def leave(self) -> None:
        """The client has closed the connection."""
        self.gone = True
        if self._pending is not None:
            self._pending.cancel()
        self._tell()

    async def receive(self) -> dict[str, Any]:
        """ASGI: what has arrived of the body; later, that the client is gone or has its answer."""
        line = self._line
        if self._expects and not line.transport.is_closing():
            self._expects = False
            line.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not (self._arrived or self.gone or self.answered):
            line.resume_reading()
            self._news = line.loop.create_future()
            await self._news
        if self.gone or self.answered:
            return _DISCONNECT
        return {"type": "http.request", "body": self._taken(), "more_body": self._more}

    async def send(self, message: dict[str, Any]) -> None:
        """ASGI: the head of the answer, or a piece of its body."""
        line = self._line
        if line.is_paused and not self.gone:
            await line.writable()
        if self.gone:
            return
        if message["type"] == "http.response.start":
            self._expects, self._begun = False, True
            self._head = self._heading(message["status"], message["headers"])
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        if self.scope["method"] == "HEAD":
            body = b""
        elif self._chunked:
            body = b"%x\r\n%s\r\n" % (len(body), body) if body else b""
            body = body if more else body + b"0\r\n\r\n"
        head, self._head = self._head, None
        if head is None:
            line.transport.write(body)
        else:
            self._write_both(head, body)
        if not more:
            self._end()

    def _write(self, app: Direct, pending: Pending[Reply]) -> None:
        """The answer is known. Whatever goes wrong with it is the client's to hear, not whoever has the answer."""
        self._pending = None
        try:
            reply = pending.result()
        except Exception as error:  # noqa: BLE001 - every failure becomes an answer
            reply = app.problem(error, self.scope)
        except asyncio.CancelledError:  # the service has ended
            self._line.transport.close()
            return
        if reply.pieces is None and not self._line.is_paused and self.scope["method"] != "HEAD":
            try:
                head = self._heading(reply.status, app.headers_of(reply))
            except Exception as error:  # noqa: BLE001
                reply = app.problem(error, self.scope)
                head = self._heading(reply.status, app.headers_of(reply))
            self._write_both(head, reply.body)
            self._end()
            return
        known = Pending[Reply]()
        known.resolve(reply)
        self._run(app.conclude(known, self.scope, self.receive, self.send))

    def _write_both(self, head: bytes, body: bytes) -> None:
        if len(body) <= JOINED:
            self._line.transport.write(head + body)
        else:
            self._line.transport.writelines((head, body))

    def _end(self) -> None:
        self.answered = True
        self._tell()
        self._line.answered(self)

    def _taken(self) -> bytes:
        """What has arrived of the body since the last time."""
        pieces, self._pieces, self._unread, self._arrived = self._pieces, [], 0, False
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _run(self, answering: Awaitable[None]) -> None:
        self._task = task = self._line.loop.create_task(self._watched(answering))
        self._line.state.tasks.add(task)

    async def _watched(self, answering: Awaitable[None]) -> None:
        try:
            await answering
        except BaseException:
            log.exception("%s %s failed", self.scope["method"], self.scope["path"][:200])
            for message in () if self._begun else _FAILED:
                await self.send(message)
        finally:
            self._line.state.tasks.discard(self._task)
            self._task = None
        if not self.answered and not self.gone:  # an answer that was broken off
            self._line.transport.close()

    def _heading(self, status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
        lines = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d " % status]
        sized = status in (204, 304) or self.scope["method"] == "HEAD"
        closes = not self.keep
        for name, value in (*self._line.state.default_headers, *headers):
            if name == b"content-length":
                sized = True
            elif name == b"connection" and value.lower() == b"close":
                closes, self.keep = False, False
            lines.append(name + b": " + value)
        if closes:
            lines.append(b"connection: close")
        if not sized:
            self._chunked = True
            lines.append(b"transfer-encoding: chunked")
        head = b"\r\n".join(lines)
        if head.count(b"\r") != len(lines) - 1 or head.count(b"\n") != len(lines) - 1:
            raise RuntimeError("a header contains a line break")
        return head + b"\r\n\r\n"

    def _tell(self) -> None:
        """Wake `receive`: there is something new."""
        self._arrived = True
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
