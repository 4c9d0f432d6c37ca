"""HTTP over ASGI: limits, bodies, replies and streams; disconnecting cancels a request. Subclasses give the answers."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cotenant.serving.http.messages import Reply, Request
from cotenant.serving.http.problems import Status, reply_to, status_of

log = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Answer = Callable[[Request], Awaitable[Reply]]


WATCH_AFTER_S = 0.02
"""How long a request runs before its client is watched."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits per client."""

    body: int = 64 * 2**20
    headers: int = 64 * 2**10
    path: int = 2048
    body_s: float = 30.0
    """Time limit for sending the entire body."""
    send_s: float = 60.0
    """Time limit for receiving one piece of the answer."""


class Asgi(ABC):
    """An ASGI application. Every failure becomes an answer."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()

    @abstractmethod
    def _find(self, method: str, path: str, headers: Mapping[str, str]) -> Answer:
        """What will answer a request, by its head alone. Raises CotenantError to refuse it before its body is read."""

    def _marks(self) -> list[tuple[bytes, bytes]]:
        """Headers of every answer."""
        return []

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Handle one ASGI request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await _lifespan(receive, send)
            return
        openai = scope["path"].startswith("/v1/")
        try:
            request, answer = await self._read(scope, receive)
            reply = await _unless_gone(answer(request), receive)
        except _GoneError:
            return
        except Exception as error:  # outermost handler: every failure becomes an answer
            if status_of(error) == 500:
                log.exception("%s %s failed", scope["method"], scope["path"][:200])
            reply = reply_to(error, openai=openai)
        await self._reply(reply, send, receive, body=scope["method"] != "HEAD")

    async def _read(self, scope: dict[str, Any], receive: Receive) -> tuple[Request, Answer]:
        limits = self._limits
        pairs = scope["headers"]
        if sum(len(name) + len(value) for name, value in pairs) > limits.headers:
            raise Status(431, "The headers are too long.")
        if len(scope["path"]) > limits.path:
            raise Status(414, "The path is too long.")
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in pairs}
        answer = self._find(scope["method"], scope["path"], headers)
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > limits.body:
            raise Status(413, f"A body has at most {limits.body} bytes.")
        try:
            async with asyncio.timeout(limits.body_s):
                body = await _body(receive, limits.body)
        except TimeoutError:
            raise Status(408, f"The body didn't arrive within {limits.body_s:g} s.") from None
        return Request(scope["method"], scope["path"], headers, body), answer

    async def _reply(self, reply: Reply, send: Send, receive: Receive, *, body: bool) -> None:
        headers = [(b"content-type", reply.kind.encode())]
        headers += [(name.encode(), value.encode()) for name, value in reply.headers.items()]
        headers += self._marks()
        if reply.pieces is None:
            headers.append((b"content-length", str(len(reply.body)).encode()))
            await send({"type": "http.response.start", "status": reply.status, "headers": headers})
            await send({"type": "http.response.body", "body": reply.body if body else b""})
            return
        headers.append((b"cache-control", b"no-store"))
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        try:
            await _unless_gone(self._pieces(reply, send), receive)
        except _GoneError:
            return

    async def _pieces(self, reply: Reply, send: Send) -> None:
        assert reply.pieces is not None
        try:
            async for piece in reply.pieces:
                message = {"type": "http.response.body", "body": piece, "more_body": True}
                async with asyncio.timeout(self._limits.send_s):
                    await send(message)
            await send({"type": "http.response.body", "body": b""})
        finally:
            await reply.pieces.aclose()  # type: ignore[attr-defined] # a generator: what it serves is taken back


class _GoneError(Exception):
    """The client closed the connection."""


async def _unless_gone(work: Awaitable[Any], receive: Receive) -> Any:
    """The result, or `_GoneError` once the client has disconnected, which cancels the work."""
    watch = _Watch(receive)
    try:
        return await work
    except asyncio.CancelledError:
        if watch.gone:
            watch.forgive()
            raise _GoneError from None
        raise
    finally:
        watch.end()


class _Watch:
    """Cancels the current task when its client disconnects.

    It begins after a moment: most requests have been answered by then, and a task for each would cost more than them.
    """

    def __init__(self, receive: Receive) -> None:
        self.gone = False
        self._receive = receive
        self._task = asyncio.current_task()
        self._leaving: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(WATCH_AFTER_S, self._begin)

    def forgive(self) -> None:
        """Undo the cancellation: the task goes on without the client."""
        if self._task is not None:
            self._task.uncancel()

    def end(self) -> None:
        """Stop watching."""
        self._timer.cancel()
        if self._leaving is not None:
            self._leaving.cancel()

    def _begin(self) -> None:
        self._leaving = asyncio.get_running_loop().create_task(_left(self._receive))
        self._leaving.add_done_callback(self._left)

    def _left(self, leaving: "asyncio.Task[None]") -> None:
        if not leaving.cancelled() and self._task is not None:
            self.gone = True
            self._task.cancel()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _body(receive: Receive, most: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _GoneError
        piece = message.get("body", b"")
        size += len(piece)
        if size > most:
            raise Status(413, f"A body has at most {most} bytes.")
        if piece:
            pieces.append(piece)
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
