"""`openai:http://host:port`: a server with the OpenAI API, under streamed chats, completions or embeddings."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from cotenant.errors import RequestFailed, WorkloadError
from cotenant.workloads.options import read_options, refuse_unused
from cotenant.workloads.protocol import Answer, Built, Place, Properties, WorkloadSpec
from cotenant.workloads.servers.address import Address
from cotenant.workloads.servers.asking import UnexpectedAnswer, ask_json
from cotenant.workloads.servers.generation import Generation, whole_answer
from cotenant.workloads.servers.http11 import refused
from cotenant.workloads.servers.names import OPENAI
from cotenant.workloads.servers.prompts import PromptOptions, Prompts
from cotenant.workloads.servers.serving import HttpClient, ServerOptions, Standing, address_in, stand
from cotenant.workloads.yours.stated import FAMILY, UNKNOWN_DTYPE

WHAT = "a server with the OpenAI API"
DEFAULT_TOKENS = 32
MOST_TOKENS = 4096
_PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions", "embeddings": "/v1/embeddings"}


class OpenAIOptions(ServerOptions):
    """Which model is asked for what."""

    model: str | None = None
    """None: the only one that the server has."""
    api: Literal["chat", "completions", "embeddings"] = "chat"
    prompts: PromptOptions = PromptOptions()
    stream: bool = True
    fixed_length: bool = True
    """Ask for exactly `tokens` tokens (`ignore_eos`, `min_tokens`); False: at most that many."""
    temperature: float = Field(default=0.0, ge=0, le=2)
    extra: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request, as the server knows them."""


@dataclass(frozen=True, slots=True)
class OpenAIServer:
    """A language model behind an address."""

    name: str
    family: str = FAMILY
    dtype: None = None
    about: str = "a server with the OpenAI API: vLLM, SGLang, llama.cpp, Ollama, TEI, ..."

    def check(self, spec: WorkloadSpec) -> None:
        """Refuse what can't be asked, and a server that is not there, not of this kind, or without that model."""
        self.check_unexecuted(spec)
        address = address_in(spec, OPENAI)
        if address is not None:
            options = read_options(spec, OpenAIOptions)
            choose_model(address, options)

    def check_unexecuted(self, spec: WorkloadSpec) -> str:
        """Refuse what can't be asked; gives what can't be known without the server."""
        refuse_unused(spec, used={"seq", "dtype", "tokens", "server"})
        options = read_options(spec, OpenAIOptions)
        if spec.tokens is not None and spec.tokens > MOST_TOKENS:
            raise WorkloadError(f"`{self.name}`: at most {MOST_TOKENS} tokens of an answer are timed one by one")
        if spec.batch > 1 and options.api != "embeddings":
            raise WorkloadError(
                f"`{self.name}`: a request of `{options.api}` has one prompt, not a batch of {spec.batch}",
                hint="keep several requests under way instead: `load: closed(8)`",
            )
        if spec.tokens is not None and options.api == "embeddings":
            raise WorkloadError(f"`{self.name}`: embeddings have no tokens to generate", hint="remove `tokens`")
        Prompts(_prompt_options(spec, options), spec.seed)
        address = address_in(spec, OPENAI)
        where = "its server was not started" if address is None else f"{address.name} was not contacted"
        return f"{where}: whether it serves the model is not known"

    def properties(self, spec: WorkloadSpec) -> Properties:
        """Only what the user states."""
        return read_options(spec, OpenAIOptions).stated.properties()

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
        return Built(
            stages=(),
            dtype=spec.dtype or UNKNOWN_DTYPE,
            weights=UNKNOWN_DTYPE,
            seq=client.prompt_options.tokens if client.prompt_options.file is None else spec.seq,
            facts={
                "address": standing.address.name,
                "model": model,
                "api": options.api,
                "prompts": client.prompt_options.model_dump(),
                "tokens_asked": None if options.api == "embeddings" else client.tokens,
                "fixed_length": options.fixed_length,
                "temperature": options.temperature,
                "tokens_counted_by": "the server's `usage`; without it, chunks that carry text",
                **standing.facts(),
                "stated": options.stated.model_dump(exclude_none=True),
            },
            close=standing.stop,
            client=client,
        )


class OpenAIClient(HttpClient):
    """Asks one model, each time with a new prompt."""

    def __init__(self, standing: Standing, spec: WorkloadSpec, options: OpenAIOptions, model: str) -> None:
        warm = spec.server.warm if spec.server else 0
        super().__init__(standing, options, warm, {"Content-Type": "application/json"})
        self._options = options
        self._streams = options.stream and options.api != "embeddings"
        self._path = _root(standing.address) + _PATHS[options.api]
        self._batch = spec.batch
        self.tokens = spec.tokens or DEFAULT_TOKENS
        self.prompt_options = _prompt_options(spec, options)
        self._prompts = Prompts(self.prompt_options, spec.seed)
        self._fixed = _fixed_fields(options, model, self.tokens, spec.seed)
        if self._streams:
            self.slots = ("first token", *["token"] * (self.tokens - 1), "end")
            self.first_output = 0
        else:
            self.slots = ("answer",)

    async def request(self, number: int, mark: Callable[[int], None]) -> Answer:
        """One prompt, and its answer token by token."""
        body = json.dumps(self._fixed | self._asked(number)).encode()
        if not self._streams:
            reply = await self.connections.send("POST", self._path, body)
            if not reply.ok:
                raise refused(self.standing.address.name, reply)
            answer = whole_answer(reply.body)
            mark(0)
            return answer
        last = self.tokens - 1

        def token(chunk: int) -> None:
            if chunk <= last:
                mark(chunk)

        generation = Generation(token)
        reply = await self.connections.send("POST", self._path, body, generation.feed)
        if not reply.ok:
            raise refused(self.standing.address.name, reply)
        answer = generation.answer()
        mark(self.tokens)
        if self._options.fixed_length and answer.tokens_out is not None and answer.tokens_out != self.tokens:
            raise RequestFailed(
                "wrong length",
                f"asked for {self.tokens} tokens and got {answer.tokens_out}",
                hint="the server does not know `ignore_eos`: `params: {fixed_length: false}` takes any length",
            )
        return answer

    def _asked(self, number: int) -> dict[str, Any]:
        match self._options.api:
            case "chat":
                return {"messages": [{"role": "user", "content": self._prompts.next(number)}]}
            case "completions":
                return {"prompt": self._prompts.next(number)}
            case "embeddings":
                return {"input": [self._prompts.next(number * self._batch + item) for item in range(self._batch)]}


def _fixed_fields(options: OpenAIOptions, model: str, tokens: int, seed: int) -> dict[str, Any]:
    if options.api == "embeddings":
        return {"model": model, **options.extra}
    fields: dict[str, Any] = {"model": model, "max_tokens": tokens, "temperature": options.temperature, "seed": seed}
    if options.fixed_length:
        fields |= {"ignore_eos": True, "min_tokens": tokens}
    if options.stream:
        fields |= {"stream": True, "stream_options": {"include_usage": True}}
    return fields | options.extra


def choose_model(address: Address, options: OpenAIOptions) -> str:
    """The model to ask for.

    Raises:
        WorkloadError: The server does not answer as it should, has no such model, or has several.
    """
    path = f"{_root(address)}/v1/models"
    try:
        listed = ask_json(address, path, options.headers, what=WHAT)
    except UnexpectedAnswer as error:
        # `transformers serve` fails to list without a network, and servers of embeddings often have no list at all:
        # a model that was named is then asked for, and its first answers tell.
        if options.model is not None and (error.status >= 500 or options.api == "embeddings"):
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


def _names(listed: Any) -> list[str] | None:
    if not isinstance(listed, Mapping) or not isinstance(listed.get("data"), list):
        return None
    return [str(one["id"]) for one in listed["data"] if isinstance(one, Mapping) and "id" in one]


def _root(address: Address) -> str:
    return address.path.rstrip("/").removesuffix("/v1")


def _prompt_options(spec: WorkloadSpec, options: OpenAIOptions) -> PromptOptions:
    if spec.seq is None:
        return options.prompts
    if {"tokens", "file"} & options.prompts.model_fields_set:
        raise WorkloadError(f"`{spec.name}`: `seq` and `prompts` both say how long a prompt is", hint="remove `seq`")
    return options.prompts.model_copy(update={"tokens": spec.seq})
