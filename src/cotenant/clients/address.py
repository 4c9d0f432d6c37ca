"""The address of a server, checked before anything is sent there."""

from dataclasses import dataclass
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
