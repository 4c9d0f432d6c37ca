"""The ASGI application: limits, keys, routes, replies; disconnecting cancels a request."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from cotenant.serving.conduct.conductor import TRACEPARENT
from cotenant.serving.http.access import check_admin, check_stranger, check_tenant, locked
from cotenant.serving.http.foreign import refuse_foreign_pages
from cotenant.serving.http.keys import presented
from cotenant.serving.http.messages import Reply, Request, read_json
from cotenant.serving.http.problems import Status, reply_to, status_of
from cotenant.serving.http.routes import Route, find_route
from cotenant.serving.service import Service

log = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


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


class Application:
    """Serves a `Service` over ASGI."""

    def __init__(self, service: Service, limits: Limits | None = None) -> None:
        self._service = service
        self._limits = limits or Limits()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Handle one ASGI request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await _lifespan(receive, send)
            return
        openai = scope["path"].startswith("/v1/")
        try:
            request, route, parts = await self._read(scope, receive)
            TRACEPARENT.set(request.headers.get("traceparent"))
            reply = await _unless_gone(route.handler(self._service, request, parts), receive)
        except _GoneError:
            return
        except Exception as error:  # outermost handler: every failure becomes an answer
            if status_of(error) == 500:
                log.exception("%s %s failed", scope["method"], scope["path"][:200])
            reply = reply_to(error, openai=openai)
        await self._reply(reply, send, receive, body=scope["method"] != "HEAD")

    async def _read(self, scope: dict[str, Any], receive: Receive) -> tuple[Request, Route, dict[str, str]]:
        limits = self._limits
        pairs = scope["headers"]
        if sum(len(name) + len(value) for name, value in pairs) > limits.headers:
            raise Status(431, "The headers are too long.")
        if len(scope["path"]) > limits.path:
            raise Status(414, "The path is too long.")
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in pairs}
        route, parts, known = find_route(scope["method"], scope["path"])
        if route is None:
            if known:
                raise Status(405, f"{scope['path']} takes {' or '.join(sorted(set(known)))}.")
            raise Status(404, f"There is nothing at {scope['path'][:200]}.")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > limits.body:
            raise Status(413, f"A body has at most {limits.body} bytes.")
        self._admit_early(route, headers)
        try:
            async with asyncio.timeout(limits.body_s):
                body = await _body(receive, limits.body)
        except TimeoutError:
            raise Status(408, f"The body didn't arrive within {limits.body_s:g} s.") from None
        request = Request(scope["method"], scope["path"], headers, body)
        self._admit(route, parts, request)
        return request, route, parts

    def _admit_early(self, route: Route, headers: dict[str, str]) -> None:
        """Check keys before reading a body."""
        if not locked(self._service):
            refuse_foreign_pages(headers)
        if route.access != "open":
            check_stranger(self._service, presented(headers))

    def _admit(self, route: Route, parts: dict[str, str], request: Request) -> None:
        """A tenant's key is valid for its model; the admin's for all."""
        service, key = self._service, presented(request.headers)
        if route.access == "admin":
            check_admin(service, key)
            return
        if route.access == "open":
            return
        name = parts.get("model")
        if name is None and request.method == "POST":
            name = str(read_json(request.body).get("model"))
        check_tenant(service, key, name)

    async def _reply(self, reply: Reply, send: Send, receive: Receive, *, body: bool) -> None:
        headers = [(b"content-type", reply.kind.encode())]
        headers += [(name.encode(), value.encode()) for name, value in reply.headers.items()]
        if self._service.basis != "measured":
            headers.append((b"x-cotenant-basis", self._service.basis.encode()))
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
    doing = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise _GoneError
        return doing.result()
    finally:
        leaving.cancel()
        if not doing.done():
            doing.cancel()
            await asyncio.gather(doing, return_exceptions=True)


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
