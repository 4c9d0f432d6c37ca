"""Find out what a backend serves and what a request costs, with a few requests at the start."""

import json
import statistics
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cotenant.errors import ServingError, WorkloadError
from cotenant.scheduling import ChunkCost, TenantCosts
from cotenant.serving.backends.backend import Backend, Errand
from cotenant.serving.tensors import Signature, TensorSpec
from cotenant.tenancy.backend import BackendEntry
from cotenant.workloads.protocol import WorkloadSpec

PROBES = 5
PROMPT = "one two three four five six seven eight "
_JSON = {"Content-Type": "application/json"}
_Form = tuple[str, Mapping[str, Any]]
_FORMS: tuple[_Form, ...] = (
    ("/v1/completions", {"ignore_eos": True}),
    ("/v1/chat/completions", {"ignore_eos": True}),
    ("/v1/completions", {}),
    ("/v1/chat/completions", {}),
)
"""Endpoint and optional fields, tried in turn: some servers only support chat, some refuse `ignore_eos`."""


class _Refused(ServingError):
    """The backend answered, but not with a 2xx."""


@dataclass(frozen=True, slots=True)
class Passing:
    """How a tenant's requests are passed on: the model, and the time of a request."""

    entry: BackendEntry
    model: str
    prompt_s: float
    """Seconds to the first token of a prompt with ``letters``; for other requests, total seconds."""
    token_s: float
    tokens: int
    letters: int
    config: Mapping[str, Any] | None = None
    """The model's configuration, where the server states it as Triton does."""

    def scale(self, letters: int, tokens: int) -> float:
        """Cost of a request relative to a typical request."""
        typical = self.prompt_s + self.token_s * (self.tokens - 1)
        prompt = self.prompt_s * max(0.25, letters / self.letters)
        return (prompt + self.token_s * (tokens - 1)) / typical


@dataclass(frozen=True, slots=True)
class BackendFacts:
    """A tenant behind a backend, as known to the scheduler and the front ends."""

    passing: Passing
    costs: TenantCosts
    signature: Signature
    check: Errand | None = None
    """A small request whose answer proves that the model works."""


async def probe(backend: Backend, entry: BackendEntry, *, seq: int, tokens: int, embeds: bool) -> BackendFacts:
    """Query the backend's models and measure its costs.

    Args:
        backend: The backend.
        entry: Its entry in the file; `cost` skips the measurement.
        seq: Words of a typical prompt, or a free dimension of an input.
        tokens: Tokens of a typical answer.
        embeds: The model embeds texts.

    Raises:
        ServingError: It is unreachable, isn't such a server, lacks the model, or refuses a plain request.
    """
    if entry.protocol == "v2":
        return await _probe_v2(backend, entry, seq)
    model = entry.model or await _only_model(backend)
    prompt = (PROMPT * (seq // 8 + 1))[: max(8, 4 * seq)]
    if embeds:
        question = {"model": model, "input": prompt}
        whole = await _times(backend, entry, "/v1/embeddings", question)
        passing = Passing(entry, model, statistics.median(whole), 0.0, 1, len(prompt))
        return BackendFacts(passing, _costs(whole), Signature((), (), embeds=True), _check("/v1/embeddings", question))
    if entry.cost is not None:
        step = entry.cost / tokens
        passing = Passing(entry, model, step, step, tokens, len(prompt))
        check = _check("/v1/completions", _question("/v1/completions", {}, model, prompt, 1))
        return BackendFacts(passing, _costs([entry.cost]), Signature((), (), decodes=True), check)
    first, (target, fields) = await _first_token(backend, entry, model, prompt)
    whole = await _times(backend, entry, target, _question(target, fields, model, prompt, tokens))
    prompt_s = min(statistics.median(first), statistics.median(whole))
    token_s = (statistics.median(whole) - prompt_s) / max(1, tokens - 1)
    passing = Passing(entry, model, prompt_s, token_s, tokens, len(prompt))
    check = _check(target, _question(target, fields, model, prompt, 1))
    return BackendFacts(passing, _costs(whole), Signature((), (), decodes=True), check)


def _check(target: str, question: Mapping[str, Any]) -> Errand:
    return Errand(target, json.dumps(question).encode(), _JSON)


async def _first_token(backend: Backend, entry: BackendEntry, model: str, prompt: str) -> tuple[list[float], _Form]:
    """Times to the first token, and the form of request that the server accepts."""
    for target, fields in _FORMS[:-1]:
        with suppress(_Refused):
            return await _times(backend, entry, target, _question(target, fields, model, prompt, 1)), (target, fields)
    target, fields = _FORMS[-1]
    return await _times(backend, entry, target, _question(target, fields, model, prompt, 1)), (target, fields)


def _question(target: str, fields: Mapping[str, Any], model: str, prompt: str, tokens: int) -> dict[str, Any]:
    asked = {"messages": [{"role": "user", "content": prompt}]} if "chat" in target else {"prompt": prompt}
    return {"model": model, **asked, "max_tokens": tokens, "temperature": 0, **fields}


async def _probe_v2(backend: Backend, entry: BackendEntry, seq: int) -> BackendFacts:
    import cotenant.workloads.yours  # noqa: F401 - before the next line: the two packages need each other
    from cotenant.workloads.servers import V2Options, body_of, inputs_of

    if entry.model is None:
        raise ServingError(f"The backend {entry.address.name} lists no model.", hint="Add `model:` to the backend.")
    server = await backend.json("/v2")
    path = f"/v2/models/{entry.model}"
    described = await backend.json(path)
    if not isinstance(described, Mapping) or not isinstance(described.get("inputs"), list):
        raise ServingError(f"The backend {entry.address.name} doesn't describe the inputs of {entry.model}.")
    signature = Signature(_specs(described["inputs"]), _specs(described.get("outputs") or []))
    extensions = server.get("extensions") if isinstance(server, Mapping) else None
    check = None
    try:
        inputs = inputs_of(entry.address.name, described, WorkloadSpec(name=entry.model, seq=seq), V2Options())
        body, headers = body_of(inputs, binary="binary_tensor_data" in (extensions or ()))
        check = Errand(f"{path}/infer", body, headers)
    except WorkloadError as error:
        if entry.cost is None:
            raise ServingError(error.message, hint="State the time of a request: `cost: 20ms`.") from None
    times = [entry.cost or 0.0] if check is None else await _times(backend, entry, check.target, check.body, headers)
    config = None
    with suppress(ServingError):  # an extension that not every server has
        config = await backend.json(f"{path}/config")
    config = config if isinstance(config, Mapping) else None
    passing = Passing(entry, entry.model, statistics.median(times), 0.0, 1, 1, config)
    return BackendFacts(passing, _costs(times), signature, check)


def _specs(tensors: list[Any]) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(
            str(tensor.get("name")), str(tensor.get("datatype")), tuple(int(size) for size in tensor.get("shape", ()))
        )
        for tensor in tensors
        if isinstance(tensor, Mapping)
    )


async def _only_model(backend: Backend) -> str:
    listed = await backend.json("/v1/models")
    data = listed.get("data") if isinstance(listed, Mapping) else None
    models = [str(model["id"]) for model in data or () if isinstance(model, Mapping) and "id" in model]
    if len(models) != 1:
        names = ", ".join(models[:5]) or "none"
        raise ServingError(
            f"The backend {backend.address.name} has {len(models)} models: {names}.", hint="Name one: `model: ...`."
        )
    return models[0]


async def _times(
    backend: Backend, entry: BackendEntry, target: str, question: "dict[str, Any] | bytes", headers: Any = None
) -> list[float]:
    """Seconds of a few consecutive requests; the first is only a warm-up."""
    if entry.cost is not None:
        return [entry.cost]
    body = question if isinstance(question, bytes) else json.dumps(question).encode()
    times = []
    for _ in range(PROBES + 1):
        began = time.monotonic()
        try:
            reply = await backend.send(Errand(target, body, headers or _JSON))
        except WorkloadError as error:
            raise ServingError(f"The backend failed at {target}: {error.message}.", hint=error.hint) from None
        if not reply.ok:
            sentence = reply.body[:200].decode(errors="replace")
            raise _Refused(
                f"The backend {backend.address.name} refused a plain request to {target}: {reply.status} {sentence}",
                hint="State the time of a request instead: `cost: 20ms`.",
            )
        times.append(time.monotonic() - began)
    return times[1:]


def _costs(times: list[float]) -> TenantCosts:
    ordered = sorted(max(time_s, 1e-6) for time_s in times)
    middle = statistics.median(ordered)
    return TenantCosts((ChunkCost(middle, max(middle, ordered[int(0.9 * len(ordered))]), middle),))
