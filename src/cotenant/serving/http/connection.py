"""One HTTP/1.1 connection: a request is read, answered, and only then is the next looked at.

A request whose answer is a `Pending` needs no task: its answer is written the moment it is known. All others have a
task, which is cancelled when the client leaves. Requests sent ahead wait as bytes.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from cotenant.serving.http.messages import Answer, ConnectionPhase, HttpRequest, Reply, Status, request_id, write_head
from cotenant.serving.http.parsing import ArrivingBody, BodyShare, complete_head
from cotenant.serving.tickets import Pending

if TYPE_CHECKING:
    from cotenant.serving.http.listener import HttpServer

log = logging.getLogger(__name__)

AHEAD = 1 << 16
"""A client that has sent this much behind its current request waits."""
JOINED = 1 << 16
"""A longer body isn't copied behind its head."""
LINGER_S = 2.0
LINGER_MOST = 1 << 24
"""How long and how much a refused client may go on sending. Closing at once could destroy an answer still unread."""


class HttpConnection(asyncio.Protocol):
    """Reads requests, has them answered, writes the answers."""

    def __init__(self, server: "HttpServer", address: str, *, surplus: bool) -> None:
        self.address = address
        self.surplus = surplus
        """One too many: its request is refused."""
        self.transport: asyncio.Transport | None = None
        self.phase = ConnectionPhase.HEAD
        self.active_s = server.loop.time()
        """When bytes of a body arrived last."""
        self._server = server
        self._limits = server.limits
        self._deadline_s = self.active_s + server.limits.idle_s
        self._rest = bytearray()
        """Bytes that belong to no request yet."""
        self._scanned = 0
        self._known: HttpRequest | None = None
        """The last head: equal bytes mean an equal request."""
        self._head: HttpRequest | None = None
        self._answer: Answer | None = None
        self._body: ArrivingBody | None = None
        self._share = BodyShare(server, server.limits)
        self._keep = True
        self._unread = False
        """Whether part of a refused request may still arrive."""
        self._pending: Pending[Reply] | None = None
        self._task: asyncio.Task[None] | None = None
        self._dropped = 0
        self._reading = True
        self._writable: asyncio.Future[None] | None = None

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self.transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone: take back what it asked for."""
        del exc
        self.phase = ConnectionPhase.CLOSING
        self._server.forget(self)
        self._release()
        self._rest.clear()
        if self._pending is not None:
            pending, self._pending = self._pending, None
            pending.cancel()
        if self._task is not None:
            self._task.cancel()
        self.resume_writing()

    def data_received(self, data: bytes) -> None:
        """Read what has arrived."""
        if self.phase is ConnectionPhase.HEAD and self._writable is None:
            known = self._known
            if known is not None and not self._rest and data.startswith(known.raw):
                self._begin(known, data, len(known.raw))
            else:
                self._read_head(data)
        elif self.phase is ConnectionPhase.BODY:
            self._read_body(data, 0)
        elif self.phase is not ConnectionPhase.CLOSING:
            self._hold(data)
        else:
            self._dropped += len(data)
            if self._dropped > LINGER_MOST:
                self._abort()

    def pause_writing(self) -> None:
        """The client reads too slowly."""
        if self._writable is None:
            self._writable = self._server.loop.create_future()
            self._deadline_s = self._server.loop.time() + self._limits.send_s

    def resume_writing(self) -> None:
        """The client has read."""
        if self._writable is None:
            return
        writable, self._writable = self._writable, None
        if not writable.done():
            writable.set_result(None)
        if self.phase is ConnectionPhase.HEAD:
            self._wait_for_head()
        elif self.phase is ConnectionPhase.ANSWER:
            self._deadline_s = math.inf

    # Called by the server.

    def expire(self, now_s: float) -> None:
        """Close the connection if it waits for too long."""
        if now_s < self._deadline_s:
            return
        if self.phase is ConnectionPhase.BODY:
            self._refuse(Status(408, f"The body didn't arrive within {self._limits.body_s:g} s."), whole=False)
        elif self.phase is ConnectionPhase.HEAD and self._rest.strip() and self._writable is None:
            self._refuse(Status(408, f"The head didn't arrive within {self._limits.head_s:g} s."), whole=False)
        elif self.phase is ConnectionPhase.HEAD and self._writable is None:
            self.close()
        else:
            self._abort()

    def close(self) -> None:
        """Close now; what was written is still sent."""
        self.phase = ConnectionPhase.CLOSING
        self._deadline_s = self._server.loop.time() + self._limits.send_s
        if self.transport is not None:
            self.transport.close()

    def finish(self) -> None:
        """The server stops: close after the current answer."""
        self._keep = False
        if self.phase is ConnectionPhase.HEAD:
            self.close()
        elif self.phase is ConnectionPhase.BODY:
            self._refuse(Status(503, "This server is stopping."), whole=False)

    def _abort(self) -> None:
        self.phase = ConnectionPhase.CLOSING
        if self.transport is not None:
            self.transport.abort()

    # Reading.

    def _read_head(self, data: bytes) -> None:
        rest, limits = self._rest, self._limits
        if not rest:
            self._deadline_s = self._server.loop.time() + limits.head_s
        rest += data
        try:
            head, self._scanned = complete_head(rest, self._scanned, limits)
        except Status as problem:
            self._refuse(problem, whole=False)
            return
        if head is not None:
            behind = bytes(rest[len(head.raw) :])
            rest.clear()
            self._known = head
            self._begin(head, behind, 0)

    def _begin(self, head: HttpRequest, data: bytes, at: int) -> None:
        """A head is complete; its body, or part of it, follows in ``data``."""
        self._server.idle.pop(self, None)
        self._head, self._scanned = head, 0
        self._keep = head.keep and not self.surplus and not self._server.stopping
        whole = not head.chunked and len(data) - at >= head.length
        try:
            if self.surplus:
                raise Status(503, "There are too many connections.")  # noqa: TRY301
            self._answer = self._server.responder.find(head)
            self._share.check(head.length)
        except Exception as error:  # noqa: BLE001 - every failure becomes an answer
            if whole:
                self._hold(data[at + head.length :])
            self._refuse(error, whole=whole)
            return
        if whole:
            end = at + head.length
            if end < len(data):
                self._hold(data[end:])
            try:
                self._share.charge(head.length)
            except Status as problem:
                self._refuse(problem, whole=False)
                return
            self._ask(data[at:end])
            return
        self.phase = ConnectionPhase.BODY
        self._deadline_s = self._server.loop.time() + self._limits.body_s
        self._body = ArrivingBody(head)
        if head.expects and at == len(data):
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._read_body(data, at)

    def _read_body(self, data: bytes, at: int) -> None:
        body, server = self._body, self._server
        assert body is not None
        self.active_s = server.loop.time()
        server.sending[self] = None
        server.sending.move_to_end(self)
        try:
            at = body.feed(data, at)
            self._share.check(body.announced)
            self._share.charge(body.size)
        except Status as problem:
            self._refuse(problem, whole=False)
            return
        if body.done:
            self._body = None
            if at < len(data):
                self._hold(data[at:])
            self._ask(body.joined())

    def _release(self) -> None:
        self._share.release()
        self._body = None

    def _hold(self, data: bytes) -> None:
        """Keep bytes behind the current request for later."""
        self._rest += data
        if len(self._rest) > AHEAD and self._reading and self.transport is not None:
            self._reading = False
            self.transport.pause_reading()

    # Answering.

    def _ask(self, body: bytes) -> None:
        head, answer = self._head, self._answer
        assert head is not None
        assert answer is not None
        self.phase, self._deadline_s = ConnectionPhase.ANSWER, math.inf
        self._server.sending.pop(self, None)
        try:
            if "content-encoding" in head.headers:
                body = self._share.decompressed(body, head.headers["content-encoding"])
            answering = answer(HttpRequest(head.method, head.path, head.headers, body, head.query))
        except Exception as error:  # noqa: BLE001 - every failure becomes an answer
            self._send(self._server.responder.problem(error, head))
            return
        if isinstance(answering, Pending):
            self._pending = answering
            answering.then(self._on_known)
        else:
            self._task = self._server.loop.create_task(self._conclude(answering))

    def _refuse(self, error: Exception, *, whole: bool) -> None:
        """Answer with a problem; without the whole request the connection can't be used again."""
        if self.phase is ConnectionPhase.CLOSING:
            return
        self._server.idle.pop(self, None)
        self._server.sending.pop(self, None)
        self._unread, self._keep = not whole, self._keep and whole
        self.phase, self._deadline_s = ConnectionPhase.ANSWER, math.inf
        self._send(self._server.responder.problem(error, self._head))

    def _on_known(self, pending: Pending[Reply]) -> None:
        """The answer is known. What goes wrong with it is reported to the client, not to whoever has the answer."""
        self._pending = None
        try:
            reply = pending.result()
        except Exception as error:  # noqa: BLE001 - every failure becomes an answer
            reply = self._server.responder.problem(error, self._head)
        except asyncio.CancelledError:  # the service has ended
            self.close()
            return
        self._send(reply)

    async def _conclude(self, answering: Awaitable[Reply]) -> None:
        """Await an answer and send it."""
        try:
            reply = await answering
        except asyncio.CancelledError:
            if self.phase is not ConnectionPhase.CLOSING:  # the service has ended
                self.close()
            raise
        except Exception as error:  # noqa: BLE001 - every failure becomes an answer
            reply = self._server.responder.problem(error, self._head)
        if reply.pieces is None:
            self._send(reply)
        else:
            await self._stream(reply)

    def _send(self, reply: Reply) -> None:
        """Write an answer; a stream goes on in a task."""
        if self.phase is ConnectionPhase.CLOSING:
            return
        if reply.pieces is not None:
            self._task = self._server.loop.create_task(self._stream(reply))
            return
        try:
            head = self._heading(reply)
        except Exception as error:  # noqa: BLE001 - every failure becomes an answer
            reply = self._server.responder.problem(error, self._head)
            head = self._heading(reply)
        if self._head is not None and self._head.method == "HEAD":
            self._write(head)
        elif len(reply.body) <= JOINED:
            self._write(head + reply.body)
        elif self.transport is not None:
            self.transport.writelines((head, reply.body))
        self._end()

    async def _stream(self, reply: Reply) -> None:
        """Write an answer piece by piece, as fast as the client reads."""
        assert reply.pieces is not None
        assert self._head is not None
        chunked = self._head.minor == 1
        try:
            if self.phase is ConnectionPhase.CLOSING:
                return
            self._keep = self._keep and chunked
            self._write(self._heading(reply))  # the head doesn't wait for a piece
            if self._head.method != "HEAD":
                async for piece in reply.pieces:
                    if piece:
                        self._write(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
                    if self._writable is not None:
                        await self._writable
                if chunked:
                    self._write(b"0\r\n\r\n")
        except Exception:
            log.exception("%s %s broke off", self._head.method, self._head.path[:200])
            self._abort()  # so that the client can tell it from an end
            return
        finally:
            await reply.pieces.aclose()  # type: ignore[attr-defined] # a generator: what it serves is taken back
        self._end()

    def _heading(self, reply: Reply) -> bytes:
        """The head of an answer."""
        server = self._server
        own = {
            "date": server.date(),
            "x-request-id": request_id(self._head) or server.new_id(),
            **server.responder.marks(),
        }
        return write_head(reply, own, old=self._head is not None and self._head.minor == 0, keep=self._keep)

    def _write(self, data: bytes) -> None:
        if self.transport is not None:
            self.transport.write(data)

    def _end(self) -> None:
        """An answer is complete: look at the next request, or close."""
        self._release()
        self._task = None
        if self.phase is ConnectionPhase.CLOSING:
            return
        if self._keep:
            self._head = self._answer = None
            self.phase = ConnectionPhase.HEAD
            self._wait_for_head()
        elif self._unread or self._rest:
            self._linger()
        else:
            self.close()

    def _wait_for_head(self) -> None:
        server, limits = self._server, self._limits
        self._deadline_s = server.loop.time() + (limits.idle_s if self._writable is None else limits.send_s)
        server.idle[self] = None
        if self._rest and self._writable is None:
            server.loop.call_soon(self._read_on)  # not at once: the end of the answered request isn't counted yet

    def _read_on(self) -> None:
        """Look at requests that were sent ahead."""
        if self.phase is not ConnectionPhase.HEAD or self._writable is not None:
            return
        data = bytes(self._rest)
        self._rest.clear()
        if not self._reading and self.transport is not None:
            self._reading = True
            self.transport.resume_reading()
        if data:
            self.data_received(data)

    def _linger(self) -> None:
        """Close, but let the client read its answer first, although it still sends."""
        self.phase = ConnectionPhase.CLOSING
        self._deadline_s = self._server.loop.time() + LINGER_S
        self._rest.clear()
        transport = self.transport
        if transport is None or not transport.can_write_eof():
            self.close()
            return
        self._server.idle[self] = None  # it makes room first
        transport.write_eof()
        if not self._reading:
            self._reading = True
            transport.resume_reading()
