"""The application of a `Service`: its keys, routes and handlers."""

from collections.abc import Awaitable, Mapping

from cotenant.serving.conduct.tickets import TRACEPARENT
from cotenant.serving.http.access import (
    check_admin,
    check_stranger,
    check_tenant,
    locked,
    presented,
    refuse_foreign_pages,
)
from cotenant.serving.http.messages import Reply, Request, read_json
from cotenant.serving.http.parsing import RequestHead
from cotenant.serving.http.problems import Status
from cotenant.serving.http.responder import Answer, Responder
from cotenant.serving.http.routes import find_route
from cotenant.serving.service import Service


class Application(Responder):
    """Serves a `Service` over HTTP."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def find(self, head: RequestHead) -> Answer:
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
        found, named = route, parts

        def answer(request: Request) -> Awaitable[Reply]:
            if found.access == "admin":
                check_admin(service, presented(headers))
            elif found.access == "tenant" and locked(service):
                self._check_tenant(presented(headers), named, request)
            TRACEPARENT.set(headers.get("traceparent"))
            return found.handler(service, request, named)

        return answer

    def marks(self) -> Mapping[str, str]:
        """Says where the numbers come from, unless they are measured."""
        basis = self._service.basis
        return {} if basis == "measured" else {"x-cotenant-basis": basis}

    def _check_tenant(self, key: str | None, parts: Mapping[str, str], request: Request) -> None:
        """A tenant's key is valid for its model; the admin's for all."""
        name = parts.get("model")
        if name is None and request.method == "POST":
            name = str(read_json(request.body).get("model"))
        check_tenant(self._service, key, name)
