"""HTTP over ASGI: limits, bodies, replies and streams; disconnecting cancels a request. Subclasses give the answers."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cotenant.serving.http.messages import Reply, Request
from cotenant.serving.http.problems import Status, reply_to, status_of
from cotenant.serving.http.visits import Receive, Visit, Visits

log = logging.getLogger(__name__)

Send = Callable[[dict[str, Any]], Awaitable[None]]
Answer = Callable[[Request], Awaitable[Reply]]
_READ = "cotenant.headers"


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
        self._visits = Visits()

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
        visit = self._visits.begin(receive, self._limits.body_s)
        await self._conclude(self._read_and_ask(scope, receive, visit), visit, scope, send)

    async def conclude(self, answer: Awaitable[Reply], scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Send an answer that has been asked for already."""
        await self._conclude(answer, self._visits.begin(receive), scope, send)

    def problem(self, error: Exception, scope: dict[str, Any]) -> Reply:
        """The answer that says what went wrong."""
        if status_of(error) == 500:
            log.error("%s %s failed", scope["method"], scope["path"][:200], exc_info=error)
        return reply_to(error, openai=_is_openai(scope["path"]))

    def headers_of(self, reply: Reply) -> list[tuple[bytes, bytes]]:
        """The headers of an answer."""
        headers = [(b"content-type", reply.kind.encode())]
        if reply.headers:
            headers += [(name.encode(), value.encode()) for name, value in reply.headers.items()]
        headers += self._marks()
        if reply.pieces is None:
            headers.append((b"content-length", b"%d" % len(reply.body)))
        else:
            headers.append((b"cache-control", b"no-store"))
        return headers

    async def _read_and_ask(self, scope: dict[str, Any], receive: Receive, visit: Visit) -> Reply:
        headers = self._head(scope)
        answer = self._find(scope["method"], scope["path"], headers)
        body = await self._body(headers, receive)
        visit.patience_s = None
        return await answer(Request(scope["method"], scope["path"], headers, body))

    async def _conclude(self, answer: Awaitable[Reply], visit: Visit, scope: dict[str, Any], send: Send) -> None:
        try:
            reply = await answer
        except _GoneError:
            return
        except asyncio.CancelledError:
            if not visit.forgive():
                raise
            if visit.gone:
                return
            reply = self.problem(Status(408, f"The body didn't arrive within {self._limits.body_s:g} s."), scope)
        except Exception as error:  # noqa: BLE001 - outermost handler: every failure becomes an answer
            reply = self.problem(error, scope)
        finally:
            self._visits.end(visit)
        await self.send_reply(reply, scope, visit.receive, send)

    def _head(self, scope: dict[str, Any]) -> dict[str, str]:
        """The headers, if they and the path are of acceptable length; kept with a head that comes again."""
        known: dict[str, str] | None = scope.get(_READ)
        if known is not None:
            return known
        limits, size = self._limits, 0
        headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            size += len(name) + len(value)
            headers[name.decode("latin-1").lower()] = value.decode("latin-1")
        if size > limits.headers:
            raise Status(431, "The headers are too long.")
        if len(scope["path"]) > limits.path:
            raise Status(414, "The path is too long.")
        scope[_READ] = headers
        return headers

    def check_length(self, headers: Mapping[str, str], arrived: int) -> None:
        """Refuse a body that is too long. Raises Status."""
        most = self._limits.body
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > most or arrived > most:
            raise Status(413, f"A body has at most {most} bytes.")

    async def _body(self, headers: Mapping[str, str], receive: Receive) -> bytes:
        self.check_length(headers, 0)
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _GoneError
            piece = message.get("body", b"")
            size += len(piece)
            self.check_length(headers, size)
            if piece:
                pieces.append(piece)
            if not message.get("more_body", False):
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def send_reply(self, reply: Reply, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Send an answer, in pieces if it is a stream."""
        await send({"type": "http.response.start", "status": reply.status, "headers": self.headers_of(reply)})
        if reply.pieces is None:
            await send({"type": "http.response.body", "body": reply.body if scope["method"] != "HEAD" else b""})
            return
        await send({"type": "http.response.body", "body": b"", "more_body": True})  # the head doesn't wait for a piece
        visit = self._visits.begin(receive)
        try:
            await self._pieces(reply, send)
        except asyncio.CancelledError:
            if not visit.forgive():
                raise
        finally:
            self._visits.end(visit)

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


def _is_openai(path: str) -> bool:
    return path.startswith("/v1/")


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
