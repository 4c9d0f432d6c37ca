"""A connection to a cluster as a driver: authentication, and nodes by name."""

import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cotenant.errors import FleetError

# --- `--on ray[://host:port]`: parse the address, and check it before connecting

FORMS = "ray (the cluster that runs on this machine) or ray://HOST:PORT (its head)"
GCS_PORT = 6379
CLIENT_PORT = 10001
"""Ray's port for drivers outside the cluster; our driver runs on one of its nodes."""
CONNECT_S = 3.0


@dataclass(frozen=True, slots=True)
class ClusterAddress:
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


def parse(on: str) -> ClusterAddress:
    """Parse the address given by the user. Raises FleetError."""
    if on == "ray":
        named = os.environ.get("RAY_ADDRESS", "")
        return (
            parse(named if named.startswith("ray://") else f"ray://{named}")
            if named not in {"", "auto"}
            else ClusterAddress()
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
    return ClusterAddress(host, port)


def require_open_port(address: ClusterAddress) -> None:
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


AUTH, TOKEN = "RAY_AUTH_MODE", "token"
TOKENS = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
STDERR = 2
PATIENCE_S = 180.0
"""Timeout for an actor to start and reply for the first time."""


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of the cluster."""

    id: str
    name: str
    """Its host name; its address if several nodes share the name."""
    address: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A connected cluster."""

    address: ClusterAddress

    def nodes(self) -> tuple[Node, ...]:
        """Live nodes, in order of their names."""
        import ray

        return named([node for node in ray.nodes() if node["Alive"]])

    def actor(self, kind: type, node: Node, *, calls: int = 1) -> Any:
        """Start an actor on this node only; it takes this many calls at once."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        place = NodeAffinitySchedulingStrategy(node.id, soft=False)
        # A plain class made remote here, so that Ray sends its name and not its code.
        options = {"num_cpus": 0, "max_restarts": 0, "max_concurrency": calls, "scheduling_strategy": place}
        return ray.remote(kind).options(**options).remote()


def named(nodes: Sequence[Mapping[str, Any]]) -> tuple[Node, ...]:
    """Ray's list of nodes, each with a unique name."""
    hosts = [str(node["NodeManagerHostname"]) for node in nodes]
    found = []
    for node, host in zip(nodes, hosts, strict=True):
        address = str(node["NodeManagerAddress"])
        labels = {str(key): str(value) for key, value in (node.get("Labels") or {}).items()}
        found.append(Node(str(node["NodeID"]), host if hosts.count(host) == 1 else address, address, labels))
    return tuple(sorted(found, key=lambda node: node.name))


@contextmanager
def connected(on: str, *, insecure: bool = False) -> Iterator[Cluster]:
    """Connect to the cluster at an address for the duration of the context.

    Args:
        on: `ray` or `ray://host:port`.
        insecure: Use a cluster without token authentication.

    Raises:
        FleetError: There is none, it has no authentication, or the tokens differ.
    """
    address = parse(on)
    _require_token(insecure=insecure)  # before importing Ray, which reads the mode then
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray = _ray()
    require_open_port(address)
    stop_signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    with tempfile.TemporaryFile() as log:
        try:
            with _stderr_to(log.fileno()):
                ray.init(address=address.gcs, log_to_driver=False, logging_level="error", configure_logging=False)
            _restore(stop_signals)
        except (ConnectionError, ray.exceptions.RayError, RuntimeError, ValueError) as error:
            log.seek(0)
            raise _unreachable(address, f"{error} {log.read().decode(errors='replace')}") from None
    try:
        cluster = Cluster(address)
        yield cluster
    finally:
        ray.shutdown()


@contextmanager
def _stderr_to(file: int) -> Iterator[None]:
    """Keep what Ray's library writes to standard error: only there it says why, many times over."""
    sys.stderr.flush()
    try:
        before = os.dup(STDERR)
    except OSError:  # it is closed
        yield
        return
    os.dup2(file, STDERR)
    try:
        yield
    finally:
        os.dup2(before, STDERR)
        os.close(before)


def _restore(handlers: Mapping[signal.Signals, Any]) -> None:
    """Take signals back from Ray, whose own handler of SIGTERM prints a stack and aborts."""
    if threading.current_thread() is threading.main_thread():
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise FleetError("--on ray needs the package ray", hint="install it: pip install 'cotenant[ray]'") from None
    return ray


def _require_token(*, insecure: bool) -> None:
    """Refuse an open cluster: anyone who reaches it can run code on all of its nodes."""
    kept = Path("~/.ray/auth_token").expanduser()
    if AUTH not in os.environ and (any(name in os.environ for name in TOKENS) or kept.exists()):
        os.environ[AUTH] = TOKEN
    if os.environ.get(AUTH) != TOKEN and not insecure:
        raise FleetError(
            f"{AUTH} is not `{TOKEN}` here, so a cluster without token authentication would be used",
            hint=f"start all nodes and this command with {AUTH}={TOKEN}; or accept it: --insecure",
        )


def _unreachable(address: ClusterAddress, said: str) -> FleetError:
    if "token" in said.lower() and "auth" in said.lower():
        return FleetError(
            f"the cluster at {address} and this command have no token in common",
            hint="copy the head's ~/.ray/auth_token here (mode 600), or set RAY_AUTH_TOKEN_PATH",
        )
    if address.host is None:
        return FleetError("no Ray cluster runs on this machine", hint=f"start one: {start_command()}")
    if "node" in said.lower() and ("find" in said.lower() or "raylet" in said.lower()):
        return FleetError(
            f"this machine is not a node of the cluster at {address}",
            hint=f"make it one: ray start --address={address.gcs} --num-cpus=0",
        )
    return FleetError(
        f"the cluster at {address} refused this command",
        hint="is the token the same (RAY_AUTH_MODE=token), and is it Ray of the same version? See `ray status`",
    )


# --- ray's settings: no usage statistics, no lowered priority, and lost nodes detected within seconds

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
"""Ray's workers run at niceness 15 by default, and tenants would inherit that."""
HEALTH = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "500",
    "RAY_health_check_failure_threshold": "3",
}
"""By default a dead node is detected after 13 s."""
