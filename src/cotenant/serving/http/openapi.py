"""The OpenAPI 3.1 document, generated from the table of routes."""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cotenant import __version__
from cotenant.serving.http.openai_input import MOST_ANSWERS, MOST_PROMPTS, MOST_TEXTS
from cotenant.serving.http.request_options import MOST_LOGPROBS, MOST_STOPS
from cotenant.serving.service import ServedModel
from cotenant.serving.tensors import SIZES

if TYPE_CHECKING:
    from cotenant.serving.http.app import Route

_JSON = "application/json"
_KINDS = {"/metrics": "text/plain", "/ui": "text/html"}


def _object(required: Iterable[str] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": properties}


def _texts(most: int) -> dict[str, Any]:
    ids = {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}}
    some = [{"type": "string", "minLength": 1}, ids]
    several = {"type": "array", "minItems": 1, "maxItems": most}
    return {"oneOf": [*some, *({**several, "items": schema} for schema in some)]}


def _number(least: float, most: float) -> dict[str, Any]:
    return {"type": "number", "minimum": least, "maximum": most}


def _whole(least: int, most: int | None = None) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, **({} if most is None else {"maximum": most})}


_SAMPLING: dict[str, Any] = {
    "max_tokens": _whole(1, 4096),
    "max_completion_tokens": _whole(1, 4096),
    "min_tokens": _whole(0, 4096),
    "temperature": _number(0, 2),
    "top_p": _number(0, 1),
    "top_k": _whole(-1),
    "min_p": _number(0, 1),
    "seed": {"type": "integer"},
    "stop": {"oneOf": [{"type": "string", "minLength": 1}, {"type": "array", "maxItems": MOST_STOPS}]},
    "stop_token_ids": {"type": "array", "maxItems": MOST_STOPS, "items": _whole(0)},
    "ignore_eos": {"type": "boolean"},
    "repetition_penalty": _number(0.01, 100),
    "presence_penalty": _number(-2, 2),
    "frequency_penalty": _number(-2, 2),
    "logit_bias": {"type": "object", "additionalProperties": _number(-100, 100)},
}
_GENERATING: dict[str, Any] = {
    **_SAMPLING,
    "model": {"type": "string"},
    "n": _whole(1, MOST_ANSWERS),
    "stream": {"type": "boolean"},
    "stream_options": _object(include_usage={"type": "boolean"}, continuous_usage_stats={"type": "boolean"}),
    "priority": {"type": "integer", "description": "vLLM's: lower goes first."},
    "user": {"type": "string"},
}
_TENSOR = _object(
    ("name", "datatype", "shape", "data"),
    name={"type": "string"},
    datatype={"enum": list(SIZES)},
    shape={"type": "array", "maxItems": 8, "items": {"type": "integer", "minimum": 0}},
    data={"type": "array", "items": {}},
)
_INFER = _object(
    ("inputs",),
    id={"type": ["string", "integer"]},
    inputs={"type": "array", "minItems": 1, "items": _TENSOR},
    outputs={"type": "array", "items": _object(("name",), name={"type": "string"}, parameters=_object())},
    parameters={
        **_object(timeout={"type": "integer", "description": "Microseconds."}, priority={"type": "integer"}),
        "description": "Decoders also take the sampling options of /v1/completions.",
    },
)
_MESSAGE = _object(
    ("role", "content"),
    role={"enum": ["system", "developer", "user", "assistant", "tool"]},
    content={"type": ["string", "null"], "description": "null only of an assistant that called a tool."},
)
_NAMED = {"model": {"type": "string"}}
_BODIES: dict[str, dict[str, Any]] = {
    "/infer": _INFER,
    "/v1/completions": _object(
        ("model", "prompt"),
        prompt=_texts(MOST_PROMPTS),
        echo={"type": "boolean"},
        logprobs=_whole(0, MOST_LOGPROBS),
        **_GENERATING,
    ),
    "/v1/chat/completions": _object(
        ("model", "messages"),
        messages={"type": "array", "minItems": 1, "items": _MESSAGE},
        logprobs={"type": "boolean"},
        top_logprobs=_whole(0, MOST_LOGPROBS),
        **_GENERATING,
    ),
    "/v1/responses": _object(("model", "input"), input={}, **_NAMED),
    "/v1/embeddings": _object(
        ("model", "input"),
        input=_texts(MOST_TEXTS),
        encoding_format={"enum": ["float", "base64"]},
        dimensions=_whole(1),
        user={"type": "string"},
        **_NAMED,
    ),
    "/detokenize": _object(("model", "tokens"), tokens={"type": "array", "items": _whole(0)}, **_NAMED),
    "/tokenize": _object(
        ("model",), prompt={"type": "string"}, messages={"type": "array", "items": _MESSAGE}, **_NAMED
    ),
}
_ERRORS = {
    "400": "The model can't accept it; the message states why.",
    "401": "A key is required.",
    "403": "The key isn't valid for this.",
    "404": "There is no such model.",
    "408": "The body didn't arrive in time.",
    "409": "Not possible in the current state.",
    "413": "Too large, or takes longer than its deadline even alone.",
    "421": "Without keys, the server only answers to names of this machine.",
    "429": "Over the tenant's share, or the device is full; see `retry-after`.",
    "431": "The headers are too long.",
    "502": "The backend closed the connection.",
    "503": "Restarting or draining; see `retry-after`.",
}


def describe(routes: Iterable["Route"], models: Sequence[ServedModel] = ()) -> dict[str, Any]:
    """The complete document; each path lists those of the ``models`` that it takes, if there are any."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = route.path.removesuffix("/?") or "/"
        names = [model.name for model in models if _takes(path, model)]
        model = {"enum": names} if names else {"type": "string", "minLength": 1}
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, path, model)
    return {
        "openapi": "3.1.0",
        "info": {"title": "cotenant", "version": __version__},
        "paths": paths,
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    }


def _takes(path: str, served: ServedModel) -> bool:
    """Whether a model can be asked at a path."""
    protocol = None if served.passing is None else served.passing.entry.protocol
    if path == "/v1/responses":
        return protocol == "openai"
    if path in ("/v1/completions", "/v1/chat/completions"):
        return served.signature.decodes and (protocol == "openai" or served.codec is not None)
    if path == "/v1/embeddings":
        return served.signature.embeds and protocol in (None, "openai")
    if path in ("/tokenize", "/detokenize"):
        return served.codec is not None
    return not path.endswith("/infer") or protocol in (None, "v2")


def _operation(route: "Route", path: str, model: dict[str, Any]) -> dict[str, Any]:
    about = (route.handler.__doc__ or "").strip().splitlines()[0]
    names = re.findall(r"\{(\w+)\}", path)
    body = next((schema for ending, schema in _BODIES.items() if path.endswith(ending)), None)
    if body is not None and "model" in body["properties"]:
        body = {**body, "properties": {**body["properties"], "model": model}}
    done: dict[str, Any] = {"description": "Done.", "content": {kind: {} for kind in _kinds(path)}}
    if path == "/":
        done = {"description": "There is another page to look at.", "headers": {"location": {"schema": {}}}}
    error = {_JSON: {"schema": _object(("error",), error={})}}
    return {
        "summary": about,
        "operationId": f"{route.method.lower()}{re.sub(r'[^a-z0-9]+', '_', path)}",
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": model if name == "model" else {"enum": ["1"]}}
            for name in names
        ],
        **({"requestBody": {"required": True, "content": {_JSON: {"schema": body}}}} if body else {}),
        "responses": {
            "307" if path == "/" else "200": done,
            **{status: {"description": about, "content": error} for status, about in _ERRORS.items()},
        },
        **({} if route.access == "open" else {"security": [{}, {"key": []}]}),
    }


def _kinds(path: str) -> tuple[str, ...]:
    if path.endswith("/infer"):
        return _JSON, "application/octet-stream"
    if path.endswith("completions"):
        return _JSON, "text/event-stream"
    return (_KINDS.get(path, _JSON),)
