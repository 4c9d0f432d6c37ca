"""`openai:http://host:port`: a server with the OpenAI API, under streamed chats, embeddings and similar requests."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from cotenant.clients.address import Address
from cotenant.clients.asking import UnexpectedAnswer, ask_json
from cotenant.errors import WorkloadError
from cotenant.workloads.options import Opaque, StatedOptions, read_options, refuse_unused
from cotenant.workloads.protocol import Built, Place, WorkloadSpec
from cotenant.workloads.servers.generation import counter
from cotenant.workloads.servers.names import OPENAI
from cotenant.workloads.servers.openai_client import (
    GENERATING,
    MOST_TOKENS,
    OpenAIClient,
    OpenAIOptions,
    prompt_options,
    root,
)
from cotenant.workloads.servers.prompts import Prompts
from cotenant.workloads.servers.serving import address_in, built, check_start, not_asked, stand

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


def _names(listed: Any) -> list[str] | None:
    if not isinstance(listed, Mapping) or not isinstance(listed.get("data"), list):
        return None
    return [str(one["id"]) for one in listed["data"] if isinstance(one, Mapping) and "id" in one]
