"""The application of a `Service`: its keys, routes and handlers."""

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Literal, NamedTuple
from urllib.parse import unquote

from cotenant.serving.http import openai, operations, v2
from cotenant.serving.http.access import (
    check_admin,
    check_stranger,
    check_tenant,
    locked,
    presented,
    refuse_foreign_pages,
)
from cotenant.serving.http.embeddings import detokenize, embeddings, tokenize
from cotenant.serving.http.messages import Answer, HttpRequest, Reply, Responder, Status, in_json, read_json
from cotenant.serving.http.metrics import metrics
from cotenant.serving.http.openapi import describe
from cotenant.serving.service import Service
from cotenant.serving.tickets import TRACEPARENT

# Routes and their required access.

Handler = Callable[[Service, HttpRequest, Mapping[str, str]], Awaitable[Reply]]
Access = Literal["open", "tenant", "admin"]
"""open: no key; tenant: the key of the model in question, else any tenant's; admin: the admin's."""


class Route(NamedTuple):
    """One route."""

    method: str
    path: str
    pattern: re.Pattern[str]
    handler: Handler
    access: Access


def _route(method: str, path: str, handler: Handler, access: Access = "tenant") -> Route:
    pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)
    return Route(method, path, re.compile(pattern), handler, access)


async def _openapi(service: Service, request: HttpRequest, parts: Mapping[str, str]) -> Reply:
    """The OpenAPI document."""
    del request, parts
    # Without a key, the tenants are not revealed.
    return in_json(describe(ROUTES, () if locked(service) else tuple(service.tenants.values())))


_VERSIONED = "/v2/models/{model}/versions/{version}"
ROUTES = (
    _route("GET", "/healthz", v2.live, "open"),
    _route("GET", "/readyz", operations.readiness, "open"),
    _route("GET", "/health", v2.ready, "open"),
    _route("GET", "/ping", v2.ready, "open"),
    _route("POST", "/ping", v2.ready, "open"),
    _route("GET", "/", operations.front_page, "open"),
    _route("GET", "/version", operations.version, "open"),
    _route("GET", "/v2/health/live", v2.live, "open"),
    _route("GET", "/v2/health/ready", v2.ready, "open"),
    _route("GET", "/v2/?", v2.server, "open"),
    _route("POST", "/v2/models/{model}/infer", v2.infer),
    _route("POST", _VERSIONED + "/infer", v2.infer),
    _route("GET", "/v2/models/stats", v2.statistics, "admin"),
    _route("GET", "/v2/models/{model}/stats", v2.statistics),
    _route("GET", _VERSIONED + "/stats", v2.statistics),
    _route("GET", "/v2/models/{model}/ready", v2.model_ready),
    _route("GET", _VERSIONED + "/ready", v2.model_ready),
    _route("GET", "/v2/models/{model}/config", v2.config),
    _route("GET", _VERSIONED + "/config", v2.config),
    _route("GET", "/v2/models/{model}", v2.model),
    _route("GET", _VERSIONED, v2.model),
    _route("POST", "/v2/repository/index", v2.index, "admin"),
    _route("POST", "/v2/repository/models/{model}/load", v2.load, "admin"),
    _route("POST", "/v2/repository/models/{model}/unload", v2.unload, "admin"),
    _route("GET", "/v1/models", openai.models),
    _route("GET", "/v1/models/{model}", openai.model),
    _route("POST", "/v1/completions", openai.completions),
    _route("POST", "/v1/chat/completions", openai.chat),
    _route("POST", "/v1/responses", openai.responses),
    _route("POST", "/v1/embeddings", embeddings),
    _route("POST", "/tokenize", tokenize),
    _route("POST", "/detokenize", detokenize),
    _route("GET", "/metrics", metrics, "admin"),
    _route("GET", "/status", operations.status, "admin"),
    _route("GET", "/openapi.json", _openapi, "open"),
    _route("GET", "/ui", operations.live_page, "open"),
    _route("POST", "/drain", operations.drain, "admin"),
    _route("POST", "/reload", operations.reload, "admin"),
)


@lru_cache(maxsize=1024)
def find_route(method: str, path: str) -> tuple[Route | None, Mapping[str, str], tuple[str, ...]]:
    """The route, its path parameters, and the methods the path supports. Raises Status."""
    known: list[str] = []
    for route in ROUTES:
        match = route.pattern.fullmatch(path)
        if match is None:
            continue
        if route.method == method or (method == "HEAD" and route.method == "GET"):
            return route, {name: _name(part) for name, part in match.groupdict().items()}, ()
        known.append(route.method)
    return None, {}, tuple(known)


def _name(part: str) -> str:
    """A name in a path, unquoted once. Raises Status."""
    try:
        name = unquote(part, errors="strict")
    except UnicodeDecodeError:
        raise Status(400, "A name in the path isn't UTF-8.") from None
    if not name.isprintable():
        raise Status(400, "A name in the path has characters that can't be printed.")
    return name


class Application(Responder):
    """Serves a `Service` over HTTP."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def find(self, head: HttpRequest) -> Answer:
        """The handler of a request, if its sender may use it. Raises Status."""
        headers = head.headers
        route, parts, known = find_route(head.method, head.path)
        if route is None:
            if known:
                methods = sorted({*known, *(("HEAD",) if "GET" in known else ())})
                raise Status(
                    405, f"{head.path} takes {' or '.join(sorted(set(known)))}.", headers={"allow": ", ".join(methods)}
                )
            raise Status(404, f"There is nothing at {head.path[:200]}.")
        service = self._service
        if not locked(service):
            refuse_foreign_pages(headers)
        elif route.access != "open":
            check_stranger(service, presented(headers))
        access, handler = route.access, route.handler

        def answer(request: HttpRequest) -> Awaitable[Reply]:
            if access == "admin":
                check_admin(service, presented(headers))
            elif access == "tenant" and locked(service):
                self._check_tenant(presented(headers), parts, request)
            TRACEPARENT.set(headers.get("traceparent"))
            return handler(service, request, parts)

        return answer

    def marks(self) -> Mapping[str, str]:
        """Says where the numbers come from, unless they are measured."""
        basis = self._service.basis
        return {} if basis == "measured" else {"x-cotenant-basis": basis}

    def _check_tenant(self, key: str | None, parts: Mapping[str, str], request: HttpRequest) -> None:
        """A tenant's key is valid for its model; the admin's for all."""
        name = parts.get("model")
        if name is None and request.method == "POST":
            name = str(read_json(request.body).get("model"))
        check_tenant(self._service, key, name)
