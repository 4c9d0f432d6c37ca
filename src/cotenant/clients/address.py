"""The address of a server, and whether something of the right kind answers there."""

import http.client
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from cotenant.errors import WorkloadError

LOCAL = "127.0.0.1"
_PORTS = {"http": 80, "https": 443, "grpc": 8001}
"""Schemes and their default ports."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens, and its path."""

    name: str
    """As written by the user, for messages."""
    host: str
    port: int
    path: str = ""
    query: str = ""
    tls: bool = False
    scheme: str = "http"

    @property
    def authority(self) -> str:
        """Host and port, for the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def local(self) -> bool:
        """True if it names this machine."""
        return self.host in {LOCAL, "localhost", "::1"}

    @property
    def target(self) -> str:
        """Path and query, as in a request."""
        return (self.path or "/") + (f"?{self.query}" if self.query else "")


def read_address(name: str) -> Address:
    """Parse `http://host:port/path`.

    Raises:
        WorkloadError: It is not an address, or contains a password.
    """
    try:
        parts = urlsplit(name)
        port = parts.port or _PORTS.get(parts.scheme, 80)
    except ValueError as error:
        raise WorkloadError(f"`{name}` is not an address: {str(error).lower()}") from None
    plain = name.isascii() and name.isprintable() and " " not in name
    if parts.scheme not in _PORTS or not parts.hostname or not plain:
        raise WorkloadError(f"`{name}` is not an address", hint="write it as `http://host:port/path`, without spaces")
    if parts.username is not None:
        raise WorkloadError(
            "an address with a user name or password would end up in every record",
            hint="use `params: {headers: {Authorization: ...}}`",
        )
    return Address(name, parts.hostname, port, parts.path, parts.query, parts.scheme == "https", parts.scheme)


# A request before anything is measured: is the server there, and of the right kind?

LIMIT_S = 5.0
_LARGEST = 8 << 20


class UnexpectedAnswer(WorkloadError):
    """Something answers, but not as a server of this kind should."""

    def __init__(self, status: int, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


def ask(
    address: Address,
    path: str,
    headers: dict[str, str] | None = None,
    *,
    within_s: float = LIMIT_S,
    post: bytes | None = None,
    most: int = _LARGEST,
) -> tuple[int, bytes]:
    """Status and body of a GET, or of a POST with this body. Raises OSError or http.client.HTTPException.

    Of a longer body than ``most`` bytes, only so much is read.
    """
    kind = http.client.HTTPSConnection if address.tls else http.client.HTTPConnection
    connection = kind(address.host, address.port, timeout=within_s)
    try:
        connection.request("GET" if post is None else "POST", path, body=post, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.read(most)
    finally:
        connection.close()


def ask_json(address: Address, path: str, headers: dict[str, str] | None, *, what: str) -> Any:
    """The JSON a server of this kind returns there.

    Raises:
        WorkloadError: Nothing answers, or it is another kind of server.
    """
    try:
        status, body = ask(address, path, headers)
    except (OSError, UnicodeError) as error:
        raise unreachable(address, error) from None
    except http.client.HTTPException:
        raise WorkloadError(f"`{address.name}` does not answer in HTTP", hint=f"expected {what}") from None
    with suppress(ValueError):
        if 200 <= status < 300:
            return json.loads(body)
    raise UnexpectedAnswer(
        status,
        f"`{address.name}` is not {what}: GET {path} returns status {status} instead of the expected JSON",
        hint="check host, port and path; `http://...` drives any other server",
    )


def unreachable(address: Address, error: Exception) -> WorkloadError:
    """Nothing listens there."""
    text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    reason = text[:1].lower() + text[1:].rstrip(".")
    return WorkloadError(
        f"nothing answers at `{address.name}`: {reason}",
        hint="start the server first, or let cotenant start it: `server: {start: ...}`",
    )
