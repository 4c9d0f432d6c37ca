"""The application of a `Service`: its keys, routes and handlers."""

from collections.abc import Mapping

from cotenant.serving.conduct.conductor import TRACEPARENT
from cotenant.serving.http.access import check_admin, check_stranger, check_tenant, locked
from cotenant.serving.http.asgi import Answer, Asgi, Limits
from cotenant.serving.http.foreign import refuse_foreign_pages
from cotenant.serving.http.keys import presented
from cotenant.serving.http.messages import Reply, Request, read_json
from cotenant.serving.http.problems import Status
from cotenant.serving.http.routes import Route, find_route
from cotenant.serving.service import Service


class Application(Asgi):
    """Serves a `Service` over ASGI."""

    def __init__(self, service: Service, limits: Limits | None = None) -> None:
        super().__init__(limits)
        self._service = service

    def _find(self, method: str, path: str, headers: Mapping[str, str]) -> Answer:
        route, parts, known = find_route(method, path)
        if route is None:
            if known:
                raise Status(405, f"{path} takes {' or '.join(sorted(set(known)))}.")
            raise Status(404, f"There is nothing at {path[:200]}.")
        self._admit_early(route, headers)
        found, named = route, parts

        async def answer(request: Request) -> Reply:
            self._admit(found, named, request)
            TRACEPARENT.set(request.headers.get("traceparent"))
            return await found.handler(self._service, request, named)

        return answer

    def _marks(self) -> list[tuple[bytes, bytes]]:
        basis = self._service.basis
        return [] if basis == "measured" else [(b"x-cotenant-basis", basis.encode())]

    def _admit_early(self, route: Route, headers: Mapping[str, str]) -> None:
        """Check keys before reading a body."""
        if not locked(self._service):
            refuse_foreign_pages(headers)
        if route.access != "open":
            check_stranger(self._service, presented(headers))

    def _admit(self, route: Route, parts: dict[str, str], request: Request) -> None:
        """A tenant's key is valid for its model; the admin's for all."""
        service, key = self._service, presented(request.headers)
        if route.access == "admin":
            check_admin(service, key)
            return
        if route.access == "open":
            return
        name = parts.get("model")
        if name is None and request.method == "POST":
            name = str(read_json(request.body).get("model"))
        check_tenant(service, key, name)
