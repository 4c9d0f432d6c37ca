"""A connection to a cluster as a driver: authentication, and nodes by name."""

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cotenant.errors import FleetError
from cotenant.fleet.addresses import Address, parse, require_open_port, start_command

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

    address: Address

    def nodes(self) -> tuple[Node, ...]:
        """Live nodes, in order of their names."""
        import ray

        return named([one for one in ray.nodes() if one["Alive"]])

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
    hosts = [str(one["NodeManagerHostname"]) for one in nodes]
    found = []
    for one, host in zip(nodes, hosts, strict=True):
        address = str(one["NodeManagerAddress"])
        labels = {str(key): str(value) for key, value in (one.get("Labels") or {}).items()}
        found.append(Node(str(one["NodeID"]), host if hosts.count(host) == 1 else address, address, labels))
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


def _unreachable(address: Address, said: str) -> FleetError:
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
