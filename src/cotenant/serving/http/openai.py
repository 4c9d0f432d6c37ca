"""OpenAI's interface: models, completions, chat, embeddings; streaming as server-sent events."""

import asyncio
import base64
import struct
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from cotenant.errors import BadInput, CotenantError
from cotenant.serving.engines.protocol import Prompt
from cotenant.serving.http.asked import wishes_of
from cotenant.serving.http.messages import Reply, Request, in_json, to_json
from cotenant.serving.http.openai_input import Asked, prompts_of, read_asked, texts_of
from cotenant.serving.http.passing import pass_openai
from cotenant.serving.http.problems import Status, reply_to
from cotenant.serving.http.v2_tensors import numbers_of
from cotenant.serving.models.text import Codec
from cotenant.serving.processes.parcel import Parcel, Tensor
from cotenant.serving.service import Served, Service, Wishes
from cotenant.serving.written_text import Writer

_DONE = b"data: [DONE]\n\n"


async def models(service: Service, request: Request, parts: Mapping[str, str]) -> Reply:
    """All tenants."""
    del request, parts
    return in_json({"object": "list", "data": [_model(one) for one in service.tenants.values() if one.loaded]})


async def model(service: Service, request: Request, parts: Mapping[str, str]) -> Reply:
    """One tenant."""
    del request
    return in_json(_model(_served(service, parts["model"])))


async def completions(service: Service, request: Request, parts: Mapping[str, str]) -> Reply:
    """Complete a prompt."""
    del parts
    return await _generate(service, request, chat=False)


async def chat(service: Service, request: Request, parts: Mapping[str, str]) -> Reply:
    """Answer a conversation."""
    del parts
    return await _generate(service, request, chat=True)


async def _generate(service: Service, request: Request, *, chat: bool) -> Reply:
    body = request.json()
    if (passed := _passed(service, body)) is not None:
        return await pass_openai(service, passed, request, body)
    served, codec = _writer(service, body)
    asked = read_asked(body, served)
    prompts = [codec.chat(_conversation(body))] if chat else prompts_of(body.get("prompt"), codec)
    return await _answer(_Completion(service, served, codec, asked, chat=chat), request, prompts)


async def embeddings(service: Service, request: Request, parts: Mapping[str, str]) -> Reply:
    """Vectors of texts."""
    del parts
    body = request.json()
    served = _served(service, body.get("model"))
    if served.passing is not None:
        return await pass_openai(service, served, request, body)
    if not served.signature.embeds:
        raise BadInput(f"{served.name} gives no embeddings.", hint="Serve an encoder with `mode: embed`.")
    wishes = wishes_of(request.headers, vllm_priority=body.get("priority"))
    form = body.get("encoding_format", "float")
    if form not in ("float", "base64"):
        raise BadInput("`encoding_format` is float or base64.")
    if body.get("dimensions") is not None:
        raise BadInput("`dimensions` isn't supported: vectors have the model's own size.")
    prompts = texts_of(body.get("input"), served.codec)
    answers = await asyncio.gather(*(_embed(service, served, ids, wishes) for ids in prompts))
    count = sum(len(ids) for ids in prompts)
    return in_json(
        {
            "object": "list",
            "model": served.name,
            "data": [
                {"object": "embedding", "index": place, "embedding": _vector(numbers, form)}
                for place, numbers in enumerate(answers)
            ],
            "usage": {"prompt_tokens": count, "total_tokens": count},
        }
    )


class _Completion:
    """One completion or chat request, and the format of its answers."""

    def __init__(self, service: Service, served: Served, codec: Codec, asked: Asked, *, chat: bool) -> None:
        self.service = service
        self.served = served
        self.codec = codec
        self.asked = asked
        self.chat = chat
        self.id = f"{'chatcmpl' if chat else 'cmpl'}-{time.monotonic_ns():x}"
        self.created = int(time.time())

    def prompt(self, ids: tuple[int, ...]) -> Prompt:
        asked = self.asked
        tokens = asked.tokens
        longest = self.served.signature.longest
        if tokens is None:
            tokens = self.served.tokens if longest is None else max(1, min(self.served.tokens, longest - len(ids)))
        stops = () if asked.ignore_end else self.codec.stops
        return Prompt(ids, tokens, stops, asked.temperature, asked.top_p, asked.seed)

    def head(self, *, piece: bool) -> dict[str, Any]:
        kind = ("chat.completion" + (".chunk" if piece else "")) if self.chat else "text_completion"
        return {"id": self.id, "object": kind, "created": self.created, "model": self.served.name}

    def choice(self, place: int, text: str, why: str | None) -> dict[str, Any]:
        content = {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        return {"index": place, **content, "logprobs": None, "finish_reason": why}

    def piece(self, place: int, text: str | None, why: str | None, *, first: bool = False) -> dict[str, Any]:
        if not self.chat:
            return {"index": place, "text": text or "", "logprobs": None, "finish_reason": why}
        delta: dict[str, Any] = {"role": "assistant"} if first else {}
        if text is not None:
            delta["content"] = text
        return {"index": place, "delta": delta, "logprobs": None, "finish_reason": why}

    def writer(self) -> Writer:
        return Writer(self.codec, self.asked.stop)


async def _answer(completion: _Completion, request: Request, prompts: Sequence[tuple[int, ...]]) -> Reply:
    asked = completion.asked
    wishes = wishes_of(request.headers, vllm_priority=asked.priority)
    works = [completion.prompt(ids) for ids in prompts]
    for work in works:
        completion.served.signature.check_prompt(work.ids, work.tokens)
    if asked.stream:
        pieces = _stream(completion, works, wishes)
        first = await anext(pieces)  # a refusal is still sent as an answer with its own status
        return Reply(200, kind="text/event-stream", pieces=_after(first, pieces))
    made = await asyncio.gather(*(_write(completion, work, wishes) for work in works))
    choices = [completion.choice(place, text, why) for place, (text, why, _) in enumerate(made)]
    usage = _usage(sum(len(work.ids) for work in works), sum(count for _, _, count in made))
    return in_json({**completion.head(piece=False), "choices": choices, "usage": usage})


async def _write(completion: _Completion, work: Prompt, wishes: Wishes) -> tuple[str, str, int]:
    """Text, finish reason, tokens."""
    writer, text = completion.writer(), []
    async for _, piece in _tokens(completion, work, wishes, writer):
        text.append(piece)
    return "".join(text), writer.why(work.tokens), writer.count


async def _tokens(
    completion: _Completion, work: Prompt, wishes: Wishes, writer: Writer
) -> AsyncIterator[tuple[bool, str]]:
    """Pieces of text as tokens arrive; a stop text ends the request as served."""
    made: asyncio.Queue[str | None] = asyncio.Queue()

    def take(tokens: list[int]) -> bool:
        if not writer.stopped:
            made.put_nowait(writer.put(tokens))
        return writer.stopped

    serving = completion.service.generate(completion.served.name, work, wishes, take)
    serving.then(lambda _: made.put_nowait(None))
    try:
        while (piece := await made.get()) is not None:
            yield False, piece
        await serving
        yield True, writer.end()
    finally:
        serving.cancel()


async def _stream(completion: _Completion, works: Sequence[Prompt], wishes: Wishes) -> AsyncIterator[bytes]:
    usage_wanted = completion.asked.usage
    head = completion.head(piece=True) | ({"usage": None} if usage_wanted else {})
    count = 0
    for place, work in enumerate(works):
        writer, first = completion.writer(), True
        async for _, text in _tokens(completion, work, wishes, writer):
            if text or first:
                yield _event({**head, "choices": [completion.piece(place, text, None, first=first)]})
                first = False
        yield _event({**head, "choices": [completion.piece(place, None, writer.why(work.tokens))]})
        count += writer.count
    if usage_wanted:
        usage = _usage(sum(len(work.ids) for work in works), count)
        yield _event({**head, "choices": [], "usage": usage})
    yield _DONE


async def _after(first: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    try:
        async for piece in pieces:
            yield piece
    except CotenantError as error:  # the status has been sent: the stream ends with the error
        yield b"data: " + reply_to(error, openai=True).body + b"\n\n"
    finally:
        await pieces.aclose()  # type: ignore[attr-defined] # it is a generator


async def _embed(service: Service, served: Served, ids: tuple[int, ...], wishes: Wishes) -> list[float]:
    data = struct.pack(f"<{len(ids)}q", *ids)
    parcel = Parcel((Tensor("input_ids", "INT64", (1, len(ids)), data),))
    answer = await service.infer(served.name, parcel, wishes)
    return numbers_of(answer.tensors[0])


def _vector(numbers: list[float], form: str) -> Any:
    raw = struct.pack(f"<{len(numbers)}f", *numbers) if form == "base64" else b""
    return base64.b64encode(raw).decode() if form == "base64" else numbers


def _event(data: Mapping[str, Any]) -> bytes:
    return b"data: " + to_json(data) + b"\n\n"


def _usage(prompt: int, made: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made}


def _model(served: Served) -> dict[str, Any]:
    return {"id": served.name, "object": "model", "created": 0, "owned_by": "cotenant"}


def _served(service: Service, name: Any) -> Served:
    found = service.tenants.get(name) if isinstance(name, str) else None
    if found is None or not found.loaded:
        raise Status(404, f"There is no model {str(name)[:100]!r}.", hint="GET /v1/models lists them.")
    return found


def _passed(service: Service, body: Mapping[str, Any]) -> Served | None:
    """The tenant, if served by a backend."""
    served = _served(service, body.get("model"))
    return served if served.passing is not None else None


def _writer(service: Service, body: Mapping[str, Any]) -> tuple[Served, Codec]:
    served = _served(service, body.get("model"))
    if not served.signature.decodes:
        raise BadInput(f"{served.name} doesn't generate text.", hint="Serve a decoder with `mode: generate`.")
    if served.codec is None:
        raise BadInput(f"{served.name} has no tokenizer.", hint="Put tokenizer.json beside its weights.")
    return served, served.codec


def _conversation(body: Mapping[str, Any]) -> list[dict[str, str]]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadInput("`messages` must be a list of messages.")
    return [{"role": _role(message), "content": _content(message)} for message in messages]


def _role(message: Any) -> str:
    role = message.get("role") if isinstance(message, dict) else None
    if role not in ("system", "developer", "user", "assistant"):
        raise BadInput(f"A message's role is system, developer, user or assistant, not {str(role)[:40]!r}.")
    return str(role)


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        return "".join(str(part.get("text", "")) for part in content)
    raise BadInput("A message's content is text.")
