"""The application of a `Service`: its keys, routes and handlers."""

from collections.abc import Awaitable, Mapping
from typing import Any

from cotenant.serving.conduct.tickets import TRACEPARENT
from cotenant.serving.http.access import check_admin, check_stranger, check_tenant, locked
from cotenant.serving.http.asgi import Answer, Asgi, Limits
from cotenant.serving.http.foreign import refuse_foreign_pages
from cotenant.serving.http.keys import presented
from cotenant.serving.http.messages import Reply, Request, read_json
from cotenant.serving.http.problems import Status
from cotenant.serving.http.routes import find_route
from cotenant.serving.service import Service


class Application(Asgi):
    """Serves a `Service` over ASGI."""

    def __init__(self, service: Service, limits: Limits | None = None) -> None:
        super().__init__(limits)
        self._service = service

    def ask(self, scope: dict[str, Any], body: bytes) -> Awaitable[Reply]:
        """Begin to answer a request that has arrived completely, without ASGI.

        Raises:
            Exception: What `problem` turns into an answer.
        """
        headers = self._head(scope)
        answer = self._find(scope["method"], scope["path"], headers)
        self.check_length(headers, len(body))
        return answer(Request(scope["method"], scope["path"], headers, body))

    def _find(self, method: str, path: str, headers: Mapping[str, str]) -> Answer:
        route, parts, known = find_route(method, path)
        if route is None:
            if known:
                raise Status(405, f"{path} takes {' or '.join(sorted(set(known)))}.")
            raise Status(404, f"There is nothing at {path[:200]}.")
        service = self._service
        if not locked(service):
            refuse_foreign_pages(headers)
        elif route.access != "open":
            check_stranger(service, presented(headers))
        found, named = route, parts

        def answer(request: Request) -> Awaitable[Reply]:
            if found.access == "admin":
                check_admin(service, presented(headers))
            elif found.access == "tenant" and locked(service):
                self._check_tenant(presented(headers), named, request)
            TRACEPARENT.set(headers.get("traceparent"))
            return found.handler(service, request, named)

        return answer

    def _marks(self) -> list[tuple[bytes, bytes]]:
        basis = self._service.basis
        return [] if basis == "measured" else [(b"x-cotenant-basis", basis.encode())]

    def _check_tenant(self, key: str | None, parts: Mapping[str, str], request: Request) -> None:
        """A tenant's key is valid for its model; the admin's for all."""
        name = parts.get("model")
        if name is None and request.method == "POST":
            name = str(read_json(request.body).get("model"))
        check_tenant(self._service, key, name)
