"""Requests to tenants behind a backend: ordered here, executed there, passed through unchanged."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

from cotenant.errors import BadInput, CotenantError
from cotenant.serving.backends.errand import Errand, Piece
from cotenant.serving.backends.probing import Passing
from cotenant.serving.http.asked import wishes_of
from cotenant.serving.http.messages import JSON, Reply, Request, read_json
from cotenant.serving.http.problems import reply_to
from cotenant.serving.http.v2_tensors import HEADER
from cotenant.serving.service import GENERATE_MOST, Served, Service, Wishes
from cotenant.workloads.servers.framing import Reply as Answer

_KEPT = (HEADER, "retry-after", "retry-after-ms", "x-request-id")
"""Headers of a backend's answer passed on to the client, besides its content type."""
_TEXTS = ("messages", "prompt", "input")


async def pass_openai(service: Service, served: Served, request: Request, body: Mapping[str, Any]) -> Reply:
    """A completion, chat or embedding request, unchanged except for the model's name."""
    passing = _passing(served, "openai")
    tokens = body.get("max_completion_tokens", body.get("max_tokens")) or served.tokens
    if type(tokens) is not int or not 0 < tokens <= GENERATE_MOST:
        raise BadInput(f"An answer has between 1 and {GENERATE_MOST} tokens.")
    sent = {**body, "model": passing.model}
    asked = sent.pop("priority", None)  # applied here; the backend gets requests one by one in our order
    wishes = wishes_of(request.headers, vllm_priority=asked)
    letters = sum(len(str(body.get(name) or "")) for name in _TEXTS)
    return await _pass(
        service,
        served,
        Errand(request.path, json.dumps(sent, separators=(",", ":")).encode(), {"Content-Type": JSON}),
        wishes,
        letters=letters,
        tokens=tokens if served.signature.decodes else 1,
    )


async def pass_v2(service: Service, served: Served, request: Request) -> Reply:
    """Tensors, in JSON or binary, passed unchanged; only the header is read."""
    size = request.headers.get(HEADER, "")
    if size and (not size.isdecimal() or int(size) > len(request.body)):
        raise BadInput(f"{HEADER} is {size[:20]!r}, but the body has {len(request.body)} bytes.")
    header = read_json(request.body[: int(size)] if size else request.body)
    parameters = header.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise BadInput("`parameters` has to be an object.")
    wishes = wishes_of(request.headers, timeout_us=parameters.get("timeout"), priority=parameters.get("priority"))
    return await pass_tensors(service, served, request.body, int(size) if size else None, wishes)


async def pass_tensors(service: Service, served: Served, body: bytes, header: int | None, wishes: Wishes) -> Reply:
    """A request of the Open Inference Protocol; ``header``: the length of its JSON if binary data follows."""
    passing = _passing(served, "v2")
    headers = {"Content-Type": JSON}
    if header is not None:
        headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(header)}
    return await _pass(service, served, Errand(f"/v2/models/{passing.model}/infer", body, headers), wishes)


def _passing(served: Served, protocol: str) -> Passing:
    assert served.passing is not None
    if served.passing.entry.protocol != protocol:
        words = {"openai": "OpenAI's interface (/v1)", "v2": "the Open Inference Protocol (/v2)"}
        raise BadInput(f"{served.name} is served by {words[served.passing.entry.protocol]} only.")
    return served.passing


async def _pass(
    service: Service, served: Served, sent: Errand, wishes: Wishes, *, letters: int = 1, tokens: int = 1
) -> Reply:
    pieces: asyncio.Queue[Piece | None] = asyncio.Queue()
    errand = replace(sent, take=pieces.put_nowait)
    serving = asyncio.ensure_future(service.pass_on(served, errand, wishes, letters=letters, tokens=tokens))
    serving.add_done_callback(lambda _: pieces.put_nowait(None))
    try:
        head = await pieces.get()
        if head is None:
            await serving  # refused or failed before the answer started
        assert isinstance(head, Answer), "a backend answered without headers"
        kind, kept = _headers(head)
        if head.ok and kind.startswith("text/event-stream"):
            return Reply(head.status, kind=kind, headers=kept, pieces=_stream(serving, pieces))
        answer: Answer = await serving
        taken = [pieces.get_nowait() for _ in range(pieces.qsize())]
        text = b"".join(piece for piece in taken if isinstance(piece, bytes))
        return Reply(head.status, text + answer.body, kind, kept)
    except BaseException:
        await _end(serving)
        raise


async def _stream(serving: "asyncio.Future[Any]", pieces: "asyncio.Queue[Piece | None]") -> AsyncIterator[bytes]:
    try:
        while (piece := await pieces.get()) is not None:
            if isinstance(piece, bytes):
                yield piece
        await serving
    except CotenantError as error:  # the status has been sent: the stream ends with the error
        yield b"data: " + reply_to(error, openai=True).body + b"\n\n"
    finally:
        await _end(serving)


async def _end(serving: "asyncio.Future[Any]") -> None:
    if not serving.done():
        serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


def _headers(head: Answer) -> tuple[str, dict[str, str]]:
    given = {name.lower(): value for name, value in head.headers.items()}
    return given.get("content-type", JSON), {name: given[name] for name in _KEPT if name in given}
