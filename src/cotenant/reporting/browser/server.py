"""The HTTP server: loopback only, GET and HEAD only, and only for requests to a loopback name."""

import io
import os
import socket
import sys
import threading
import time
import traceback
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from cotenant import __version__
from cotenant.reporting.browser.pages import message_page
from cotenant.reporting.browser.site import Response, Site

ADDRESS = "127.0.0.1"
NAMES = frozenset({"127.0.0.1", "localhost"})
"""Any port is valid, since a forwarded connection has its own. Any other name indicates DNS rebinding."""
IDLE_S = 30.0
"""Time limit for one request to arrive completely."""
MOST_CONNECTIONS = 64
"""Maximum concurrent connections; a browser opens six."""
READING = ("GET", "HEAD")


class Server(ThreadingHTTPServer):
    """Serves a site until stopped, with a daemon thread per connection."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, site: Site) -> None:
        self.site = site
        self._room = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__((ADDRESS, port), Handler)

    @property
    def url(self) -> str:
        """Address to open."""
        return f"http://{ADDRESS}:{self.server_port}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for the connection if the limit allows."""
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve the connection, then free its slot."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect early."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Arriving(io.RawIOBase):
    """A socket reader with a deadline for the complete request."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.until_s = 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Wait for more data until the deadline. Raises TimeoutError."""
        left_s = self.until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._connection.settimeout(left_s)
        try:
            return self._connection.recv_into(buffer)
        finally:
            self._connection.settimeout(IDLE_S)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version = f"cotenant/{__version__}"
    sys_version = ""
    timeout = IDLE_S
    server: Server

    def setup(self) -> None:
        """Read through a deadline: a socket timeout alone restarts with each byte."""
        super().setup()
        self._arriving = _Arriving(self.connection)
        self.rfile = io.BufferedReader(self._arriving)

    def handle_one_request(self) -> None:
        """Handle one request of any method."""
        self._arriving.until_s = time.monotonic() + IDLE_S
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or len(self.raw_requestline) > 65536:
            self.close_connection = True
        elif self.parse_request():
            self._reply(self._answer())
            self.wfile.flush()

    def handle(self) -> None:
        """Handle requests until the connection ends or idles too long."""
        try:
            super().handle()
        except TimeoutError:
            self.close_connection = True

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002 - its signature
        """The library's errors as our pages."""
        self.close_connection = True
        # A line that could not be parsed leaves no method and version.
        self.command = getattr(self, "command", None) or "GET"
        self.request_version = "HTTP/1.1"
        self._reply(_sentence(HTTPStatus(code), message or "This request is malformed."))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its signature
        """No log: a watched page would fill the terminal."""

    def _answer(self) -> Response:
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # the body is never read, so close the connection
        if self.command not in READING:
            self.close_connection = True
            return _sentence(HTTPStatus.METHOD_NOT_ALLOWED, "These pages are read-only.")
        if not self._from_here():
            return _sentence(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"Open it on this machine, as {self.server.url} or localhost.",
            )
        if self._from_another_site():
            return _sentence(HTTPStatus.FORBIDDEN, "Requests from other sites are refused.")
        try:
            address = urlsplit(self.path)
        except ValueError:
            return _sentence(HTTPStatus.BAD_REQUEST, "This address is malformed.")
        try:
            return self.server.site.answer(unquote(address.path), address.query)
        except Exception:  # noqa: BLE001 - the edge: a defect must not end the server or leave a reader waiting
            if os.environ.get("COTENANT_DEBUG"):
                traceback.print_exc()
            return _sentence(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                "Internal error. Start with COTENANT_DEBUG=1 for a traceback, and please report it.",
            )

    def _from_here(self) -> bool:
        """Whether exactly one Host header names this machine (RFC 9110 requires exactly one)."""
        hosts = self.headers.get_all("Host", [])
        return len(hosts) == 1 and hosts[0].strip().rpartition(":")[0 if ":" in hosts[0] else 2].lower() in NAMES

    def _from_another_site(self) -> bool:
        """Whether another site's page makes this request. Following a link is fine, fetching isn't."""
        site = self.headers.get("Sec-Fetch-Site", "none")
        return site not in {"same-origin", "none"} and self.headers.get("Sec-Fetch-Mode") != "navigate"

    def _reply(self, answer: Response) -> None:
        body = answer.body.encode("utf-8", "backslashreplace")
        self.send_response(answer.status)
        headers = {
            "Content-Type": f"{answer.kind}; charset=utf-8",
            "Content-Length": str(len(body)),
            "Content-Security-Policy": f"{answer.policy}; frame-ancestors 'none'",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cache-Control": "no-store",
        }
        if answer.status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = ", ".join(READING)
        if self.close_connection:
            headers["Connection"] = "close"
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _sentence(status: HTTPStatus, sentence: str) -> Response:
    return Response(message_page(status.phrase, sentence), status=status)
