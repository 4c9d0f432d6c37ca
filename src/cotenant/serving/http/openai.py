"""OpenAI's interface: models, completions and chats; streaming as server-sent events."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from cotenant.errors import BadInput, CotenantError
from cotenant.serving.codec import Codec, TextWriter
from cotenant.serving.http.messages import HttpRequest, Reply, Status, in_json, reply_to, to_json
from cotenant.serving.http.openai_input import (
    MOST_PROMPTS,
    CompletionOptions,
    conversation_of,
    echoes_of,
    prompts_of,
    read_asked,
)
from cotenant.serving.http.passing import pass_openai
from cotenant.serving.http.request_options import wishes_of
from cotenant.serving.service import ServedModel, Service, Wishes
from cotenant.serving.tickets import Pending, TokenSink
from cotenant.serving.workers.work import Prompt, ScoredToken

# Answers of completions and chats in OpenAI's form, whole or as events.


class TextPiece(NamedTuple):
    """One token of an answer."""

    place: int
    """The answer's index."""
    token: int
    text: str
    """What it adds to the text; nothing while that may still become a stop text or another character."""
    scored: ScoredToken | None
    before: Sequence[ScoredToken]
    """With the first token: the scores of the prompt's, from its second on, if requested."""
    reason: str | None
    """Why the answer is over; None: it isn't."""
    stopped_by: str | int | None


class Completion:
    """One request for completions or a chat, and the form of its answers."""

    def __init__(
        self,
        model: str,
        codec: Codec,
        asked: CompletionOptions,
        works: Sequence[Prompt],
        echoes: Sequence[str],
        *,
        chat: bool,
    ) -> None:
        self.model = model
        self.codec = codec
        self.asked = asked
        self.works = works
        self._echoes = echoes
        self._chat = chat
        self._id = f"{'chatcmpl' if chat else 'cmpl'}-{time.monotonic_ns():x}"
        self._created = int(time.time())
        self._begun: set[int] = set()
        self._offsets = [0] * len(works)
        self._made = 0

    def whole(self, pieces: Sequence[TextPiece]) -> dict[str, Any]:
        """The complete answer."""
        own: list[list[TextPiece]] = [[] for _ in self.works]
        for piece in pieces:
            own[piece.place].append(piece)
        self._made = len(pieces)
        choices = [self._choice(place, some) for place, some in enumerate(own)]
        return {**self._head(piece=False), "choices": choices, "usage": self._usage()}

    def event(self, piece: TextPiece) -> dict[str, Any]:
        """The event of a token."""
        first = piece.place not in self._begun
        self._begun.add(piece.place)
        self._made += 1
        text = self._echoed(piece.place) + piece.text if first else piece.text
        content: dict[str, Any] = {"text": text}
        if self._chat:
            content = {"delta": {"role": "assistant", "content": text} if first else {"content": text}}
        choice = {
            "index": piece.place,
            **content,
            "logprobs": self._logprobs([piece]),
            "finish_reason": piece.reason,
            "stop_reason": piece.stopped_by,
        }
        usage = {"usage": self._usage() if self.asked.usage_each else None} if self.asked.usage else {}
        return {**self._head(piece=True), "choices": [choice], **usage}

    def last(self) -> dict[str, Any]:
        """The event with the usage."""
        return {**self._head(piece=True), "choices": [], "usage": self._usage()}

    def _head(self, *, piece: bool) -> dict[str, Any]:
        kind = ("chat.completion" + (".chunk" if piece else "")) if self._chat else "text_completion"
        return {"id": self._id, "object": kind, "created": self._created, "model": self.model}

    def _choice(self, place: int, pieces: Sequence[TextPiece]) -> dict[str, Any]:
        text = self._echoed(place) + "".join(piece.text for piece in pieces)
        return {
            "index": place,
            **({"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}),
            "logprobs": self._logprobs(pieces),
            "finish_reason": pieces[-1].reason,
            "stop_reason": pieces[-1].stopped_by,
        }

    def _echoed(self, place: int) -> str:
        return self._echoes[place // self.asked.answers] if self.asked.echo else ""

    def _usage(self) -> dict[str, int]:
        prompt = sum(len(work.ids) for work in self.works[:: self.asked.answers])
        return {"prompt_tokens": prompt, "completion_tokens": self._made, "total_tokens": prompt + self._made}

    def _logprobs(self, pieces: Sequence[TextPiece]) -> dict[str, Any] | None:
        if self.asked.logprobs is None:
            return None
        scored = [(piece.token, piece.scored) for piece in pieces if piece.scored is not None]
        if self._chat:
            return {"content": [self._token(token, score) for token, score in scored], "refusal": None}
        if pieces[0].before:
            ids = self.works[pieces[0].place].ids
            known: list[tuple[int, ScoredToken | None]] = [(ids[0], None), *zip(ids[1:], pieces[0].before, strict=True)]
            return self._columns(pieces[0].place, [*known, *scored])
        return self._columns(pieces[0].place, scored)

    def _columns(self, place: int, scored: Sequence[tuple[int, ScoredToken | None]]) -> dict[str, Any]:
        """The form of completions."""
        tokens, offsets = [self.codec.piece(token) for token, _ in scored], []
        for text in tokens:
            offsets.append(self._offsets[place])
            self._offsets[place] += len(text)
        return {
            "tokens": tokens,
            "token_logprobs": [None if score is None else score.logprob for _, score in scored],
            "top_logprobs": [None if score is None else self._top(token, score) for token, score in scored],
            "text_offset": offsets,
        }

    def _top(self, token: int, score: ScoredToken) -> dict[str, float]:
        """The most likely tokens, and the chosen token."""
        return {self.codec.piece(other): chance for other, chance in (*score.top, (token, score.logprob))}

    def _token(self, token: int, score: ScoredToken) -> dict[str, Any]:
        """The form of chats."""
        top = [_chance(self.codec.piece(other), chance) for other, chance in score.top]
        return {**_chance(self.codec.piece(token), score.logprob), "top_logprobs": top}


def _chance(text: str, logprob: float) -> dict[str, Any]:
    return {"token": text, "logprob": logprob, "bytes": list(text.encode())}


_DONE = b"data: [DONE]\n\n"


async def models(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """All tenants."""
    del request, parts
    return in_json(
        {"object": "list", "data": [_model(service, model) for model in service.tenants.values() if model.loaded]}
    )


async def model(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """One tenant."""
    del request
    return in_json(_model(service, find_model(service, parts["model"])))


async def completions(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """Complete a prompt."""
    del parts
    return await _generate(service, request, chat=False)


async def chat(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """Answer a conversation."""
    del parts
    return await _generate(service, request, chat=True)


async def responses(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """OpenAI's newer interface, where a backend has it."""
    del parts
    body = request.json()
    served = find_model(service, body.get("model"))
    if served.passing is None:
        raise BadInput(f"{served.name} has no /v1/responses.", hint="Use /v1/chat/completions.", param="model")
    return await pass_openai(service, served, request, body)


async def _generate(service: Service, request: HttpRequest, *, chat: bool) -> Reply:
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
        served.signature.check_prompt(work.ids, work.tokens, param="messages" if chat else "prompt")
    echoes = echoes_of(body.get("prompt"), prompts, codec) if asked.echo else ()
    completion = Completion(served.name, codec, asked, works, echoes, chat=chat)
    wishes = wishes_of(request.headers, vllm_priority=asked.priority)
    pieces = _pieces(service, completion, wishes)
    if asked.stream:
        events = _events(completion, pieces)
        first = await anext(events)  # a refusal is still sent as an answer with its own status
        return Reply(200, kind="text/event-stream", pieces=_after(first, events))
    return in_json(completion.whole([piece async for piece in pieces]))


def _work(served: ServedModel, codec: Codec, asked: CompletionOptions, ids: tuple[int, ...], number: int) -> Prompt:
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


async def _pieces(service: Service, completion: Completion, wishes: Wishes) -> AsyncIterator[TextPiece]:
    """Answers token by token, as they are made; a stop text ends its answer as served."""
    made: asyncio.Queue[TextPiece | Pending[list[int]]] = asyncio.Queue()
    servings: list[Pending[list[int]]] = []
    try:
        for place, work in enumerate(completion.works):
            sink = _sink(TextWriter(completion.codec, work, completion.asked.sampling.stop), place, made)
            serving = service.generate(completion.model, work, wishes, sink)
            serving.then(made.put_nowait)
            servings.append(serving)
        left = len(servings)
        while left:
            news = await made.get()
            if isinstance(news, TextPiece):
                yield news
            else:
                news.result()  # raises what went wrong
                left -= 1
    finally:
        for serving in servings:
            serving.cancel()


def _sink(writer: TextWriter, place: int, made: "asyncio.Queue[Any]") -> TokenSink:
    def take(tokens: list[int], scores: Sequence[ScoredToken]) -> bool:
        before = len(scores) - len(tokens)
        for number, token in enumerate(tokens):
            if writer.reason is not None:
                break
            text = writer.put(token)
            scored = scores[before + number] if scores else None
            known = scores[:before] if number == 0 and before > 0 else ()
            made.put_nowait(TextPiece(place, token, text, scored, known, writer.reason, writer.stopped_by))
        return writer.stopped

    return take


async def _events(completion: Completion, pieces: AsyncIterator[TextPiece]) -> AsyncIterator[bytes]:
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


def find_model(service: Service, name: Any) -> ServedModel:
    """A loaded tenant. Raises Status."""
    if name is None:
        raise BadInput("`model` is missing.", hint="GET /v1/models lists them.", param="model")
    model = service.tenants.get(name) if isinstance(name, str) else None
    if model is None or not model.loaded:
        hint = "GET /v1/models lists them."
        raise Status(404, f"There is no model {str(name)[:100]!r}.", hint=hint, param="model", code="model_not_found")
    return model


def codec_of(served: ServedModel) -> Codec:
    """The tokenizer of a tenant that generates text. Raises BadInput."""
    if not served.signature.decodes:
        hint = "Serve a decoder with `mode: generate`."
        raise BadInput(f"{served.name} doesn't generate text.", hint=hint, param="model")
    if served.codec is None:
        raise BadInput(f"{served.name} has no tokenizer.", hint="Put tokenizer.json beside its weights.", param="model")
    return served.codec


def _event(data: Mapping[str, Any]) -> bytes:
    return b"data: " + to_json(data) + b"\n\n"


def _model(service: Service, served: ServedModel) -> dict[str, Any]:
    created = int(time.time() - (time.monotonic() - service.started))
    about = {"id": served.name, "object": "model", "created": created, "owned_by": "cotenant"}
    longest = served.signature.longest
    return about if longest is None else {**about, "max_model_len": longest}
