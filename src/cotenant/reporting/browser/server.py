"""The server of `view`: loopback only, GET and HEAD only, and only for requests to a loopback name."""

import asyncio
import errno
import os
import threading
import traceback
from http import HTTPStatus
from types import TracebackType
from typing import Self
from urllib.parse import unquote

from cotenant.errors import CotenantError
from cotenant.reporting.browser.pages import render
from cotenant.reporting.browser.site import Response, Site
from cotenant.serving.http import (
    Answer,
    HttpLimits,
    HttpRequest,
    Reply,
    Responder,
    Status,
    is_of_another_site,
    listener_at,
    listening,
    name_of,
    status_of,
)

ADDRESS = "127.0.0.1"
NAMES = frozenset({"127.0.0.1", "localhost"})
"""Any port is valid, since a forwarded connection has its own. Any other name indicates DNS rebinding."""
LIMITS = HttpLimits(body=0, path=8192, connections=64, per_address=64, idle_s=30.0)
"""A browser opens six connections and sends no bodies."""
GRACE_S = 2.0
READING = ("GET", "HEAD")


class ViewServer:
    """Serves a site until stopped. Pages are made in threads, since they read runs."""

    def __init__(self, port: int, site: Site, limits: HttpLimits = LIMITS) -> None:
        self.site = site
        self._listener = listener_at(ADDRESS, port)
        self._limits = limits
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready, self._stopped = threading.Event(), asyncio.Event()

    @property
    def port(self) -> int:
        """The port of the address."""
        return int(self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        """Address to open."""
        return f"http://{ADDRESS}:{self.port}/"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._listener.close()

    def serve_forever(self) -> None:
        """Answer requests until Ctrl-C or `stop`."""
        asyncio.run(self._serve())

    def stop(self) -> None:
        """Make `serve_forever` return. May be called from any thread."""
        self._ready.wait()
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._stopped.set)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with listening(_Pages(self.site, self.url), self._listener, self._limits) as server:
            server.grace_s = GRACE_S
            self._ready.set()
            await self._stopped.wait()


def listening_site(port: int, site: Site) -> ViewServer:
    """A server at a port of this machine; 0 picks any free port. Raises CotenantError if it isn't available."""
    try:
        return ViewServer(port, site)
    except OSError as error:
        reason = "is in use" if error.errno == errno.EADDRINUSE else f"is unavailable: {(error.strerror or '').lower()}"
        raise CotenantError(
            f"Port {port} of {ADDRESS} {reason}.", hint="Choose another: cotenant view --port 0 picks a free one."
        ) from None


class _Pages(Responder):
    def __init__(self, site: Site, url: str) -> None:
        self._site, self._url = site, url

    def find(self, head: HttpRequest) -> Answer:
        """A page, for readers on this machine. Raises Status."""
        if head.method not in READING:
            raise Status(405, "These pages are read-only.", headers={"allow": ", ".join(READING)})
        if name_of(head.headers.get("host", "")) not in NAMES:
            raise Status(421, f"Open it on this machine, as {self._url} or localhost.")
        # Following a link is fine, fetching isn't.
        if is_of_another_site(head.headers) and head.headers.get("sec-fetch-mode") != "navigate":
            raise Status(403, "Requests from other sites are refused.")
        return self._page

    def problem(self, error: Exception, head: HttpRequest | None) -> Reply:
        """A page that says what went wrong."""
        del head
        status = HTTPStatus(status_of(error))
        sentence = "Internal error. Start with COTENANT_DEBUG=1 for a traceback, and please report it."
        if isinstance(error, CotenantError):
            sentence = error.message
        elif os.environ.get("COTENANT_DEBUG"):
            traceback.print_exception(error)
        headers = error.headers if isinstance(error, Status) else {}
        return _reply(
            Response(render("message.html.j2", title=status.phrase, sentence=sentence, hint=""), status=status),
            **headers,
        )

    async def _page(self, request: HttpRequest) -> Reply:
        return _reply(await asyncio.to_thread(self._site.answer, unquote(request.path), request.query))


def _reply(answer: Response, **more: str) -> Reply:
    headers = {
        "content-security-policy": f"{answer.policy}; frame-ancestors 'none'",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-resource-policy": "same-origin",
        "cross-origin-opener-policy": "same-origin",
        "cache-control": "no-store",
    }
    body = answer.body.encode("utf-8", "backslashreplace")
    return Reply(answer.status.value, body, f"{answer.kind}; charset=utf-8", headers | more)
