"""The OpenAPI 3.1 document, generated from the table of routes."""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cotenant import __version__
from cotenant.serving.processes.parcel import SIZES

if TYPE_CHECKING:
    from cotenant.serving.http.routes import Route

_JSON = "application/json"
_KINDS = {"/metrics": "text/plain", "/ui": "text/html"}


def _object(required: Iterable[str] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": properties}


_TEXTS: dict[str, Any] = {
    "oneOf": [
        {"type": "string", "minLength": 1},
        {"type": "array", "minItems": 1, "maxItems": 64, "items": {"type": "string", "minLength": 1}},
        {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}},
    ]
}
_SAMPLING: dict[str, Any] = {
    "model": {"type": "string"},
    "max_tokens": {"type": "integer", "minimum": 1, "maximum": 4096},
    "temperature": {"type": "number", "minimum": 0, "maximum": 2},
    "top_p": {"type": "number", "minimum": 0, "maximum": 1},
    "seed": {"type": "integer"},
    "stream": {"type": "boolean"},
    "priority": {"type": "integer", "description": "vLLM's: lower goes first."},
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
    id={"type": "string"},
    inputs={"type": "array", "minItems": 1, "items": _TENSOR},
    parameters=_object(timeout={"type": "integer", "description": "Microseconds."}, priority={"type": "integer"}),
)
_MESSAGE = _object(
    ("role", "content"), role={"enum": ["system", "developer", "user", "assistant"]}, content={"type": "string"}
)
_BODIES: dict[str, dict[str, Any]] = {
    "/infer": _INFER,
    "/v1/completions": _object(("model", "prompt"), prompt=_TEXTS, **_SAMPLING),
    "/v1/chat/completions": _object(
        ("model", "messages"), messages={"type": "array", "minItems": 1, "items": _MESSAGE}, **_SAMPLING
    ),
    "/v1/embeddings": _object(
        ("model", "input"), model={"type": "string"}, input=_TEXTS, encoding_format={"enum": ["float", "base64"]}
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


def describe(routes: Iterable["Route"], models: Sequence[str] = ()) -> dict[str, Any]:
    """The complete document; ``models`` are listed in it, if any."""
    model = {"enum": list(models)} if models else {"type": "string", "minLength": 1}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = route.path.removesuffix("/?") or "/"
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, path, model)
    return {
        "openapi": "3.1.0",
        "info": {"title": "cotenant", "version": __version__},
        "paths": paths,
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(route: "Route", path: str, model: dict[str, Any]) -> dict[str, Any]:
    about = (route.handler.__doc__ or "").strip().splitlines()[0]
    names = re.findall(r"\{(\w+)\}", path)
    body = next((schema for ending, schema in _BODIES.items() if path.endswith(ending)), None)
    if body is not None and "model" in body["properties"]:
        body = {**body, "properties": {**body["properties"], "model": model}}
    done = {"description": "Done.", "content": {kind: {} for kind in _kinds(path)}}
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
            "200": done,
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
