"""Requests to tenants behind a backend: ordered here, executed there, passed through unchanged."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from cotenant.clients.framing import HttpReply as Answer
from cotenant.errors import BadInput, CotenantError, RequestFailed
from cotenant.serving.backends.backend import Errand, Piece
from cotenant.serving.backends.probing import Passing
from cotenant.serving.http.messages import JSON, HttpRequest, Reply, read_json, reply_to
from cotenant.serving.http.request_options import wishes_of
from cotenant.serving.http.v2_tensors import HEADER
from cotenant.serving.service import GENERATE_MOST, ServedModel, Service, Wishes

_KEPT = (HEADER, "retry-after", "retry-after-ms", "x-request-id")
"""Headers of a backend's answer passed on to the client, besides its content type."""
_KINDS = (JSON, "text/event-stream", "text/plain", "application/octet-stream", "application/x-ndjson", "audio/wav")
_TEXTS = ("messages", "prompt", "input", "instructions")
_TOKENS = ("max_completion_tokens", "max_output_tokens", "max_tokens")


async def pass_openai(service: Service, served: ServedModel, request: HttpRequest, body: Mapping[str, Any]) -> Reply:
    """A completion, chat or embedding request, unchanged except for the model's name."""
    passing = _passing(served, "openai")
    limits = (body.get(name) for name in _TOKENS)
    tokens = next((limit for limit in limits if limit is not None), served.tokens)
    if type(tokens) is not int or not 0 < tokens <= GENERATE_MOST:
        raise BadInput(f"An answer has between 1 and {GENERATE_MOST} tokens.")
    sent = {**body, "model": passing.model}
    asked = sent.pop("priority", None)  # applied here; the backend gets requests one by one in our order
    wishes = wishes_of(request.headers, vllm_priority=asked)
    try:
        text = json.dumps(sent, separators=(",", ":"), allow_nan=False)
    except ValueError:  # 1e999 is JSON, but nothing that could be passed on
        raise BadInput("A number is too large.") from None
    letters = sum(len(str(body.get(name) or "")) for name in _TEXTS)
    return await _pass(
        service,
        served,
        Errand(request.path, text.encode(), {"Content-Type": JSON}),
        wishes,
        letters=letters,
        tokens=tokens if served.signature.decodes else 1,
    )


async def pass_v2(service: Service, served: ServedModel, request: HttpRequest) -> Reply:
    """Tensors, in JSON or binary, passed unchanged; only the header is read."""
    size = request.headers.get(HEADER, "")
    if size and (not size.isdecimal() or int(size) > len(request.body)):
        raise BadInput(f"{HEADER} is {size[:20]!r}, but the body has {len(request.body)} bytes.")
    header = read_json(request.body[: int(size)] if size else request.body)
    parameters = header.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise BadInput("`parameters` must be an object.")
    wishes = wishes_of(request.headers, timeout_us=parameters.get("timeout"), priority=parameters.get("priority"))
    return await pass_tensors(service, served, request.body, int(size) if size else None, wishes)


async def pass_tensors(service: Service, served: ServedModel, body: bytes, header: int | None, wishes: Wishes) -> Reply:
    """A request of the Open Inference Protocol; ``header``: the length of its JSON if binary data follows."""
    passing = _passing(served, "v2")
    headers = {"Content-Type": JSON}
    if header is not None:
        headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(header)}
    return await _pass(service, served, Errand(f"/v2/models/{passing.model}/infer", body, headers), wishes)


def _passing(served: ServedModel, protocol: str) -> Passing:
    assert served.passing is not None
    if served.passing.entry.protocol != protocol:
        words = {"openai": "OpenAI's interface (/v1)", "v2": "the Open Inference Protocol (/v2)"}
        raise BadInput(f"{served.name} is served by {words[served.passing.entry.protocol]} only.")
    return served.passing


async def _pass(
    service: Service, served: ServedModel, sent: Errand, wishes: Wishes, *, letters: int = 1, tokens: int = 1
) -> Reply:
    reply = await relay(
        lambda take: service.pass_on(served, replace(sent, take=take), wishes, letters=letters, tokens=tokens),
        _KEPT.__contains__,
    )
    if 300 <= reply.status < 400:  # whoever followed it would go around our order
        raise RequestFailed(f"http {reply.status}", f"the backend of {served.name} redirects to another address")
    return reply._replace(kind=_harmless(reply.kind))


def _harmless(kind: str) -> str:
    """The type of an answer; none that a browser would run as a page of ours."""
    family = kind.partition(";")[0].strip().lower()
    return kind if family in _KINDS or family.endswith("+json") else "application/octet-stream"


# Another server's answer as ours: its head, then its body whole, or piece by piece if it is a stream of events.

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
