"""`--on ray[://host:port]`: parse the address, and check it before connecting."""

import os
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from cotenant.errors import FleetError

FORMS = "ray (the cluster that runs on this machine) or ray://HOST:PORT (its head)"
GCS_PORT = 6379
CLIENT_PORT = 10001
"""Ray's port for drivers outside the cluster; our driver runs on one of its nodes."""
CONNECT_S = 3.0


@dataclass(frozen=True, slots=True)
class Address:
    """The head of a cluster; None: the one that runs on this machine."""

    host: str | None = None
    port: int = GCS_PORT

    def __str__(self) -> str:
        """As written after `--on`."""
        return "ray" if self.host is None else f"ray://{self.host}:{self.port}"

    @property
    def gcs(self) -> str:
        """As Ray expects it."""
        return "auto" if self.host is None else f"{self.host}:{self.port}"


def parse(on: str) -> Address:
    """Parse the address given by the user. Raises FleetError."""
    if on == "ray":
        named = os.environ.get("RAY_ADDRESS", "")
        return (
            parse(named if named.startswith("ray://") else f"ray://{named}") if named not in {"", "auto"} else Address()
        )
    try:
        parts = urlsplit(on)
        host, port = parts.hostname, parts.port or GCS_PORT
    except ValueError:
        host, port, parts = None, 0, None
    if parts is None or parts.scheme != "ray" or not host or parts.path.strip("/"):
        raise FleetError(f"{on!r} is not the address of a cluster", hint=f"write {FORMS}")
    if port == CLIENT_PORT:
        raise FleetError(
            f"port {CLIENT_PORT} of {host} is Ray's port for drivers outside the cluster",
            hint=f"run this on a node of the cluster, with the head's own port: --on ray://{host}:{GCS_PORT}",
        )
    return Address(host, port)


def require_open_port(address: Address) -> None:
    """Refuse an address at which nothing listens: Ray itself would wait for over a minute. Raises FleetError."""
    if address.host is None:
        return
    try:
        socket.create_connection((address.host, address.port), CONNECT_S).close()
    except OSError as error:
        why = (error.strerror or str(error) or "no answer").lower()
        raise FleetError(
            f"there is no Ray cluster at {address}: {why}", hint=f"start one there: {start_command(address.port)}"
        ) from None


def start_command(port: int = GCS_PORT) -> str:
    """The command that starts the head of a cluster with token authentication."""
    return f"RAY_AUTH_MODE=token ray start --head --port={port} --disable-usage-stats (docs: fleet)"
