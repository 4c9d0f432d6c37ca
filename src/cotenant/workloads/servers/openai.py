"""`openai:http://host:port`: a server with the OpenAI API, under streamed chats, embeddings and similar requests."""

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import Field

from cotenant.clients.address import Address, UnexpectedAnswer, ask_json
from cotenant.clients.http11 import AnswerTiming, refused
from cotenant.clients.openai_stream import AnswerTokens, StreamedAnswer, counter, whole_answer
from cotenant.errors import HungUp, RequestFailed, WorkloadError
from cotenant.workloads.protocol import SENT, Built, Mark, Place, WorkloadSpec
from cotenant.workloads.servers.client import (
    HttpClient,
    ServerOptions,
    ServerPlace,
    address_in,
    built,
    check_start,
    not_asked,
    stand,
)
from cotenant.workloads.servers.prompts import Conversation, Conversations, PromptOptions, Prompts
from cotenant.workloads.servers.spec import OPENAI
from cotenant.workloads.spec_options import Opaque, Options, StatedOptions, read_options, refuse_unused

DEFAULT_TOKENS = 32
MOST_TOKENS = 4096
_PATHS = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "embeddings": "/v1/embeddings",
    "rerank": "/v1/rerank",
}
GENERATING = ("chat", "completions")


class CancelOptions(Options):
    """`cancel: {share: 0.1, after: 8}`: users who don't wait for the end of an answer."""

    share: float = Field(gt=0, le=1)
    """Share of all requests."""
    after: int = Field(default=1, ge=1, le=MOST_TOKENS)
    """Tokens of the answer after which the connection is closed."""


class OpenAIOptions(ServerOptions):
    """The model and the kind of request."""

    model: str | None = None
    """A model or an adapter of it; None for the server's only model."""
    api: Literal["chat", "completions", "embeddings", "rerank"] = "chat"
    prompts: PromptOptions = PromptOptions()
    turns: int = Field(default=1, ge=1, le=1000)
    """For a chat: requests per conversation, each with everything said before."""
    stream: bool = True
    fixed_length: bool = True
    """Request exactly `tokens` tokens (`ignore_eos`, `min_tokens`); False for at most that many."""
    temperature: float = Field(default=0.0, ge=0, le=2)
    cancel: CancelOptions | None = None
    tokenizer: str | None = None
    """A tokenizer.json or its folder: counts tokens where the server sends no `usage`."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """Additional fields of the request, passed on to the server."""


def times_tokens(spec: WorkloadSpec) -> bool:
    """Its answers come token by token."""
    options = read_options(spec, OpenAIOptions)
    return options.stream and options.api in GENERATING


class OpenAIClient(HttpClient):
    """Queries a model, each time with a new prompt."""

    def __init__(self, standing: ServerPlace, spec: WorkloadSpec, options: OpenAIOptions, model: str) -> None:
        warm = spec.server.warm if spec.server else 0
        super().__init__(standing, options, warm, {"Content-Type": "application/json"})
        self._options = options
        self._streams = times_tokens(spec)
        self._path = root(standing.address) + _PATHS[options.api]
        self._batch, self._seed = spec.batch, spec.seed
        self.prompt_options = prompt_options(spec, options)
        self._prompts = Prompts(self.prompt_options, spec.seed)
        self.tokens = min(spec.tokens or self._prompts.longest_answer or DEFAULT_TOKENS, MOST_TOKENS)
        self._conversations = Conversations(options.turns)
        self._count = None if options.tokenizer is None else counter(options.tokenizer)
        self._fixed = _fixed_fields(options, model, spec.seed)
        self._sent = 0
        if self._streams:
            self.slots = ("first token", *["token"] * (self.tokens - 1), "end")
            self.first_output = 0
        else:
            self.slots = ("answer",)

    def begin(self, first_arrival: int) -> None:
        """Take the trace's lengths from here on."""
        self._prompts.begin(first_arrival)

    async def request(self, number: int, mark: Mark) -> AnswerTokens:
        """One prompt, and its answer token by token."""
        tokens = min(self._prompts.answer_tokens(number) or self.tokens, self.tokens)
        conversation = self._conversations.take() if self._options.turns > 1 else None
        asked = self._asked(number, conversation)
        if self._options.api in GENERATING:
            asked |= _length_fields(self._options, tokens)
        body = json.dumps(self._fixed | asked | self._options.extra).encode()
        if not self._streams:
            return await self._whole(body, mark)
        generation = await self._streamed(number, body, mark)
        answer = generation.answer()
        if self._options.fixed_length and answer.tokens_out is not None and answer.tokens_out != tokens:
            raise RequestFailed(
                "wrong length",
                f"requested {tokens} tokens and got {answer.tokens_out}",
                hint="the server ignores `ignore_eos`: `params: {fixed_length: false}` accepts any length",
            )
        if conversation is not None:
            conversation.answered(generation.text)
            self._conversations.give_back(conversation)
        return answer

    async def _whole(self, body: bytes, mark: Mark) -> AnswerTokens:
        timing = AnswerTiming()
        reply = await self.connections.send("POST", self._path, body, timing=timing)
        if not reply.ok:
            raise refused(self.standing.address.name, reply)
        mark(SENT, timing.sent_ns)
        mark(0, timing.arrived_ns)
        return whole_answer(reply.body)

    async def _streamed(self, number: int, body: bytes, mark: Mark) -> StreamedAnswer:
        timing, last, given_up_after = AnswerTiming(), self.tokens - 1, self._patience()

        def token(chunk: int) -> None:
            if chunk <= last:
                mark(chunk, timing.arrived_ns)
            if chunk + 1 == given_up_after:
                raise HungUp(f"closed the connection after {given_up_after} tokens, as set in the study")

        def sent() -> None:
            mark(SENT, timing.sent_ns)
            self._prompts.prepare(number + 1)

        generation = StreamedAnswer(token, count=self._count)
        reply = await self.connections.send(
            "POST",
            self._path,
            body,
            generation.feed,
            sent=sent,
            timing=timing,
            patient=given_up_after is None,
        )
        if not reply.ok:
            raise refused(self.standing.address.name, reply)
        mark(self.tokens, timing.arrived_ns)
        return generation

    def _asked(self, number: int, conversation: Conversation | None) -> dict[str, Any]:
        match self._options.api:
            case "chat":
                prompt = self._prompts.next(number)
                return {"messages": (conversation or Conversation()).asked(prompt)}
            case "completions":
                return {"prompt": self._prompts.next(number)}
            case "embeddings":
                return {"input": self._several(number)}
            case "rerank":
                return {"query": self._prompts.next(number), "documents": self._several(number)}

    def _several(self, number: int) -> list[str]:
        return [self._prompts.next(number * self._batch + item) for item in range(self._batch)]

    def _patience(self) -> int | None:
        """Number of tokens after which this request is cancelled; None for never."""
        cancel, number = self._options.cancel, self._sent
        self._sent += 1
        if cancel is None:
            return None
        drawn = random.Random(f"cancel {self._seed} {number}").random()  # noqa: S311 - a load, not a secret
        return cancel.after if drawn < cancel.share else None


def _fixed_fields(options: OpenAIOptions, model: str, seed: int) -> dict[str, Any]:
    if options.api not in GENERATING:
        return {"model": model}
    fields: dict[str, Any] = {"model": model, "temperature": options.temperature, "seed": seed}
    if options.stream:
        fields |= {"stream": True, "stream_options": {"include_usage": True}}
    return fields


def _length_fields(options: OpenAIOptions, tokens: int) -> dict[str, Any]:
    fixed = {"ignore_eos": True, "min_tokens": tokens} if options.fixed_length else {}
    return {"max_tokens": tokens, **fixed}


def root(address: Address) -> str:
    """The part of its path before `/v1`."""
    return address.path.rstrip("/").removesuffix("/v1")


def prompt_options(spec: WorkloadSpec, options: OpenAIOptions) -> PromptOptions:
    """The prompts: `seq` of the tenant is short for `prompts: {tokens: ...}`."""
    if spec.seq is None:
        return options.prompts
    if {"tokens", "file", "trace"} & options.prompts.model_fields_set:
        raise WorkloadError(f"`{spec.name}`: `seq` and `prompts` both set the prompt length", hint="remove `seq`")
    return options.prompts.model_copy(update={"tokens": spec.seq})


# `openai:http://host:port`: a server with the OpenAI API, under streamed chats, embeddings and similar requests

WHAT = "a server with the OpenAI API"


@dataclass(frozen=True, slots=True)
class OpenAIServer(Opaque):
    """A language model behind an address."""

    options: ClassVar[type[StatedOptions]] = OpenAIOptions
    about: str = "a server with the OpenAI API: vLLM, SGLang, llama.cpp, Ollama, TEI, ..."

    def check(self, spec: WorkloadSpec) -> None:
        """Refuse invalid requests, and a server that is missing, of another kind, or without that model."""
        self.check_unexecuted(spec)
        check_start(spec)
        address = address_in(spec, OPENAI)
        if address is not None:
            options = read_options(spec, OpenAIOptions)
            choose_model(address, options)

    def check_unexecuted(self, spec: WorkloadSpec) -> str:
        """Refuse invalid requests; return what is unknown without the server."""
        refuse_unused(spec, used={"seq", "dtype", "tokens", "server"})
        options = read_options(spec, OpenAIOptions)
        if spec.tokens is not None and spec.tokens > MOST_TOKENS:
            raise WorkloadError(f"`{self.name}`: at most {MOST_TOKENS} tokens of an answer are timed one by one")
        if spec.batch > 1 and options.api in GENERATING:
            raise WorkloadError(
                f"`{self.name}`: a request of `{options.api}` has one prompt, not a batch of {spec.batch}",
                hint="keep several requests in flight instead: `load: closed(8)`",
            )
        if options.api not in GENERATING:
            self._refuse_generation(spec, options)
        if options.turns > 1 and (options.api != "chat" or not options.stream):
            raise WorkloadError(f"`{self.name}`: only a streamed chat has `turns`", hint="remove `turns`")
        if options.cancel is not None and not options.stream:
            raise WorkloadError(f"`{self.name}`: only a streamed answer can be cancelled", hint="remove `cancel`")
        if options.tokenizer is not None:
            counter(options.tokenizer)
        Prompts(prompt_options(spec, options), spec.seed)
        return not_asked(spec, OPENAI)

    def _refuse_generation(self, spec: WorkloadSpec, options: OpenAIOptions) -> None:
        asked = {"tokens": spec.tokens, "turns": options.turns > 1, "cancel": options.cancel}
        for name, value in asked.items():
            if value:
                raise WorkloadError(
                    f"`{self.name}`: `{options.api}` generates nothing, so it has no {name}", hint=f"remove `{name}`"
                )

    def build(self, spec: WorkloadSpec, place: Place) -> Built:  # noqa: ARG002  (a server has its own device)
        """Have the server ready, and find the model."""
        self.check_unexecuted(spec)
        options = read_options(spec, OpenAIOptions)
        standing = stand(spec, OPENAI)
        try:
            model = choose_model(standing.address, options)
            client = OpenAIClient(standing, spec, options, model)
        except BaseException:
            standing.stop()
            raise
        facts = {
            "model": model,
            "api": options.api,
            "prompts": client.prompt_options.model_dump(),
            "tokens_asked": client.tokens if options.api in GENERATING else None,
            "fixed_length": options.fixed_length,
            "temperature": options.temperature,
            "turns": options.turns,
            "tokens_counted_by": f"the server's `usage`; without it, {_counted_by(options)}",
        }
        if client.prompt_options.generated:
            spec = spec.model_copy(update={"seq": client.prompt_options.tokens})
        return built(spec, options, standing, client, facts)


def _counted_by(options: OpenAIOptions) -> str:
    return "chunks that carry text" if options.tokenizer is None else f"the tokenizer {options.tokenizer}"


def choose_model(address: Address, options: OpenAIOptions) -> str:
    """The model to request.

    Raises:
        WorkloadError: The server answers unexpectedly, lacks the model, or has several.
    """
    path = f"{root(address)}/v1/models"
    try:
        listed = ask_json(address, path, options.headers, what=WHAT)
    except UnexpectedAnswer as error:
        # `transformers serve` can't list models without a network, and embedding servers often have no list:
        # a named model is then requested, and its first answers show whether it exists.
        if options.model is not None and (error.status >= 500 or options.api not in GENERATING):
            return options.model
        raise
    names = _names(listed)
    if names is None:
        raise WorkloadError(
            f"`{address.name}` is not {WHAT}: GET {path} does not list models",
            hint="check host, port and path; `http://...` drives any other server",
        )
    has = f"it has {', '.join(names)}" if names else "it has none"
    if options.model is None and len(names) != 1:
        raise WorkloadError(
            f"`{address.name}` serves {len(names)} models", hint=f"choose with `params: {{model: ...}}`: {has}"
        )
    if options.model is not None and names and options.model not in names:
        raise WorkloadError(f"`{address.name}` has no model `{options.model}`", hint=has)
    return options.model or names[0]


def longest_context(address: Address, headers: dict[str, str], model: str) -> int | None:
    """Tokens of the longest request, where the server's list of models says so."""
    try:
        listed = ask_json(address, f"{root(address)}/v1/models", headers, what=WHAT)
    except WorkloadError:
        return None
    models = listed.get("data") if isinstance(listed, Mapping) else None
    for entry in models if isinstance(models, list) else ():
        if isinstance(entry, Mapping) and entry.get("id") == model:
            longest = entry.get("max_model_len")
            return longest if isinstance(longest, int) and longest > 0 else None
    return None


def _names(listed: Any) -> list[str] | None:
    if not isinstance(listed, Mapping) or not isinstance(listed.get("data"), list):
        return None
    return [str(model["id"]) for model in listed["data"] if isinstance(model, Mapping) and "id" in model]
