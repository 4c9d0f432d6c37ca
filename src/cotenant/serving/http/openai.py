"""OpenAI's interface: models, completions and chats; streaming as server-sent events."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cotenant.errors import BadInput, CotenantError
from cotenant.serving.conduct.pending import Pending
from cotenant.serving.conduct.tickets import TokenSink
from cotenant.serving.engines.protocol import Prompt, Scored
from cotenant.serving.http.asked import wishes_of
from cotenant.serving.http.messages import Reply, Request, in_json, to_json
from cotenant.serving.http.openai_input import MOST_PROMPTS, Asked, conversation_of, prompts_of, read_asked
from cotenant.serving.http.openai_output import Completion, Piece
from cotenant.serving.http.passing import pass_openai
from cotenant.serving.http.problems import Status, reply_to
from cotenant.serving.models.text import Codec
from cotenant.serving.service import Served, Service, Wishes
from cotenant.serving.written_text import Writer

_DONE = b"data: [DONE]\n\n"


async def models(service: Service, request: Request, parts: Mapping[str, str]) -> Reply:
    """All tenants."""
    del request, parts
    return in_json({"object": "list", "data": [_model(service, one) for one in service.tenants.values() if one.loaded]})


async def model(service: Service, request: Request, parts: Mapping[str, str]) -> Reply:
    """One tenant."""
    del request
    return in_json(_model(service, find_model(service, parts["model"])))


async def completions(service: Service, request: Request, parts: Mapping[str, str]) -> Reply:
    """Complete a prompt."""
    del parts
    return await _generate(service, request, chat=False)


async def chat(service: Service, request: Request, parts: Mapping[str, str]) -> Reply:
    """Answer a conversation."""
    del parts
    return await _generate(service, request, chat=True)


async def responses(service: Service, request: Request, parts: Mapping[str, str]) -> Reply:
    """OpenAI's newer interface, where a backend has it."""
    del parts
    body = request.json()
    served = find_model(service, body.get("model"))
    if served.passing is None:
        raise BadInput(f"{served.name} has no /v1/responses.", hint="Use /v1/chat/completions.", param="model")
    return await pass_openai(service, served, request, body)


async def _generate(service: Service, request: Request, *, chat: bool) -> Reply:
    body = request.json()
    served = find_model(service, body.get("model"))
    if served.passing is not None:
        return await pass_openai(service, served, request, body)
    codec = codec_of(served)
    asked = read_asked(body, served, request.path)
    prompts = [codec.chat(conversation_of(body.get("messages")))] if chat else prompts_of(body.get("prompt"), codec)
    if len(prompts) * asked.answers > MOST_PROMPTS:
        raise BadInput(f"A request has at most {MOST_PROMPTS} answers.", hint="Send several requests.", param="n")
    works = [_work(served, codec, asked, ids, number) for ids in prompts for number in range(asked.answers)]
    for work in works:
        served.signature.check_prompt(work.ids, work.tokens)
    completion = Completion(served.name, codec, asked, works, chat=chat)
    wishes = wishes_of(request.headers, vllm_priority=asked.priority)
    pieces = _pieces(service, completion, wishes)
    if asked.stream:
        events = _events(completion, pieces)
        first = await anext(events)  # a refusal is still sent as an answer with its own status
        return Reply(200, kind="text/event-stream", pieces=_after(first, events))
    return in_json(completion.whole([piece async for piece in pieces]))


def _work(served: Served, codec: Codec, asked: Asked, ids: tuple[int, ...], number: int) -> Prompt:
    """One answer to a prompt."""
    sampling = asked.sampling
    tokens = sampling.prompt.tokens
    if not tokens:
        longest = served.signature.longest
        tokens = served.tokens if longest is None else max(1, min(served.tokens, longest - len(ids)))
        tokens = max(tokens, sampling.prompt.min_tokens)
    return replace(
        sampling.prompt,
        ids=ids,
        tokens=tokens,
        stop=sampling.prompt.stop if sampling.ignores_end else (*sampling.prompt.stop, *codec.stops),
        seed=sampling.seed(number),
        logprobs=asked.logprobs,
        prompt_logprobs=asked.echo and asked.logprobs is not None,
        streams=asked.stream,
    )


async def _pieces(service: Service, completion: Completion, wishes: Wishes) -> AsyncIterator[Piece]:
    """Answers token by token, as they are made; a stop text ends its answer as served."""
    made: asyncio.Queue[Piece | Pending[list[int]]] = asyncio.Queue()
    servings: list[Pending[list[int]]] = []
    try:
        for place, work in enumerate(completion.works):
            sink = _sink(Writer(completion.codec, work, completion.asked.sampling.stop), place, made)
            serving = service.generate(completion.model, work, wishes, sink)
            serving.then(made.put_nowait)
            servings.append(serving)
        left = len(servings)
        while left:
            news = await made.get()
            if isinstance(news, Piece):
                yield news
            else:
                news.result()  # raises what went wrong
                left -= 1
    finally:
        for serving in servings:
            serving.cancel()


def _sink(writer: Writer, place: int, made: "asyncio.Queue[Any]") -> TokenSink:
    def take(tokens: list[int], scores: Sequence[Scored]) -> bool:
        before = len(scores) - len(tokens)
        for number, token in enumerate(tokens):
            if writer.reason is not None:
                break
            text = writer.put(token)
            scored = scores[before + number] if scores else None
            known = scores[:before] if number == 0 and before > 0 else ()
            made.put_nowait(Piece(place, token, text, scored, known, writer.reason, writer.stopped_by))
        return writer.stopped

    return take


async def _events(completion: Completion, pieces: AsyncIterator[Piece]) -> AsyncIterator[bytes]:
    """An event for each token."""
    try:
        async for piece in pieces:
            yield _event(completion.event(piece))
        if completion.asked.usage:
            yield _event(completion.last())
        yield _DONE
    finally:
        await pieces.aclose()  # type: ignore[attr-defined] # it is a generator


async def _after(first: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    try:
        async for piece in pieces:
            yield piece
    except CotenantError as error:  # the status has been sent: the stream ends with the error
        yield b"data: " + reply_to(error, openai=True).body + b"\n\n"
    finally:
        await pieces.aclose()  # type: ignore[attr-defined] # it is a generator


def find_model(service: Service, name: Any) -> Served:
    """A loaded tenant. Raises Status."""
    if name is None:
        raise BadInput("`model` is missing.", hint="GET /v1/models lists them.", param="model")
    found = service.tenants.get(name) if isinstance(name, str) else None
    if found is None or not found.loaded:
        hint = "GET /v1/models lists them."
        raise Status(404, f"There is no model {str(name)[:100]!r}.", hint=hint, param="model", code="model_not_found")
    return found


def codec_of(served: Served) -> Codec:
    """The tokenizer of a tenant that generates text. Raises BadInput."""
    if not served.signature.decodes:
        hint = "Serve a decoder with `mode: generate`."
        raise BadInput(f"{served.name} doesn't generate text.", hint=hint, param="model")
    if served.codec is None:
        raise BadInput(f"{served.name} has no tokenizer.", hint="Put tokenizer.json beside its weights.", param="model")
    return served.codec


def _event(data: Mapping[str, Any]) -> bytes:
    return b"data: " + to_json(data) + b"\n\n"


def _model(service: Service, served: Served) -> dict[str, Any]:
    created = int(time.time() - (time.monotonic() - service.started))
    about = {"id": served.name, "object": "model", "created": created, "owned_by": "cotenant"}
    longest = served.signature.longest
    return about if longest is None else {**about, "max_model_len": longest}
