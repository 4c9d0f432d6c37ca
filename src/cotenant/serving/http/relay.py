"""Another server's answer as ours: its head, then its body whole, or piece by piece if it is a stream of events."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from cotenant.clients.framing import Reply as Answer
from cotenant.errors import CotenantError
from cotenant.serving.backends.errand import Piece
from cotenant.serving.http.messages import JSON, Reply
from cotenant.serving.http.problems import reply_to

Kept = Callable[[str], bool]
"""Whether a header of the answer, by its lower-case name, is passed on besides the content type."""


async def relay(send: Callable[[Callable[[Piece], None]], Awaitable[Any]], kept: Kept) -> Reply:
    """Send a request with ``send``, which passes on the head and the pieces of its answer and returns the rest.

    Raises:
        CotenantError: It was refused or failed before the answer began.
    """
    pieces: asyncio.Queue[Piece | None] = asyncio.Queue()
    sending = asyncio.ensure_future(send(pieces.put_nowait))
    sending.add_done_callback(lambda _: pieces.put_nowait(None))
    try:
        head = await pieces.get()
        if head is None:
            await sending  # refused or failed before the answer started
        assert isinstance(head, Answer), "a backend answered without headers"
        given = {name.lower(): value for name, value in head.headers.items()}
        kind, headers = given.get("content-type", JSON), {name: value for name, value in given.items() if kept(name)}
        if head.ok and kind.startswith("text/event-stream"):
            return Reply(head.status, kind=kind, headers=headers, pieces=_stream(sending, pieces))
        answer: Answer = await sending
        taken = [pieces.get_nowait() for _ in range(pieces.qsize())]
        text = b"".join(piece for piece in taken if isinstance(piece, bytes))
        return Reply(head.status, text + answer.body, kind, headers)
    except BaseException:
        await _end(sending)
        raise


async def _stream(sending: "asyncio.Future[Any]", pieces: "asyncio.Queue[Piece | None]") -> AsyncIterator[bytes]:
    try:
        while (piece := await pieces.get()) is not None:
            if isinstance(piece, bytes):
                yield piece
        await sending
    except CotenantError as error:  # the status has been sent: the stream ends with the error
        yield b"data: " + reply_to(error, openai=True).body + b"\n\n"
    finally:
        await _end(sending)


async def _end(sending: "asyncio.Future[Any]") -> None:
    if not sending.done():
        sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
