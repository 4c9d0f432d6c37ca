"""Requests to tenants behind a backend: ordered here, executed there, passed through unchanged."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cotenant.errors import BadInput
from cotenant.serving.backends.errand import Errand
from cotenant.serving.backends.probing import Passing
from cotenant.serving.http.asked import wishes_of
from cotenant.serving.http.messages import JSON, Reply, Request, read_json
from cotenant.serving.http.relay import relay
from cotenant.serving.http.v2_tensors import HEADER
from cotenant.serving.service import GENERATE_MOST, Served, Service, Wishes

_KEPT = (HEADER, "retry-after", "retry-after-ms", "x-request-id")
"""Headers of a backend's answer passed on to the client, besides its content type."""
_TEXTS = ("messages", "prompt", "input", "instructions")
_TOKENS = ("max_completion_tokens", "max_output_tokens", "max_tokens")


async def pass_openai(service: Service, served: Served, request: Request, body: Mapping[str, Any]) -> Reply:
    """A completion, chat or embedding request, unchanged except for the model's name."""
    passing = _passing(served, "openai")
    limits = (body.get(name) for name in _TOKENS)
    tokens = next((limit for limit in limits if limit is not None), served.tokens)
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
        raise BadInput("`parameters` must be an object.")
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
    return await relay(
        lambda take: service.pass_on(served, replace(sent, take=take), wishes, letters=letters, tokens=tokens),
        _KEPT.__contains__,
    )
