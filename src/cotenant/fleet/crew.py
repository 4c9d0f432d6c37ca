"""The workers of a run as seen by the driver, each an actor that owns its devices."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from cotenant.errors import FleetError
from cotenant.fleet import wire
from cotenant.fleet.cluster import PATIENCE_S, Cluster
from cotenant.fleet.selection import Host
from cotenant.fleet.worker import DeviceWorker

CLOSE_S = 20.0


class Lost(Exception):
    """A worker or its node is gone."""

    def __init__(self, host: str) -> None:
        super().__init__(host)
        self.host = host


class DeviceActors:
    """One worker per host. Messages are bytes; a lost node raises `Lost`."""

    def __init__(self, cluster: Cluster, hosts: Sequence[Host], agents: Mapping[str, Any]) -> None:
        """Start the workers; a node's first device goes to its existing agent."""
        self.hosts = {host.name: host for host in hosts}
        free = dict(agents)
        self._actors = {
            host.name: free.pop(host.node.name, None) or cluster.actor(DeviceWorker, host.node) for host in hosts
        }
        self._streams: dict[Any, str] = {}

    def open(self, orders: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
        """Have all of them acquire their devices.

        Raises:
            CotenantError: One can't; the message names its node.
            FleetError: One was lost.
        """
        import ray

        asked = {name: self._actors[name].open.remote(wire.packed(order)) for name, order in orders.items()}
        replies = {}
        for name, reply in asked.items():
            try:
                said = wire.unpacked(ray.get(reply, timeout=PATIENCE_S + CLOSE_S))
            except ray.exceptions.RayError:
                raise FleetError(
                    f"{name} was lost, or did not start within {PATIENCE_S:g} s", hint="check its node: ray status"
                ) from None
            wire.raise_problem(said, self.hosts[name].node.name)
            replies[name] = said
        return replies

    def start(self, host: str, method: str, order: Any) -> None:
        """Start a long operation on a host; its messages come out of `said`."""
        stream = getattr(self._actors[host], method).options(num_returns="streaming").remote(wire.packed(order))
        self._streams[stream] = host

    def said(self, wait_s: float) -> Iterator[tuple[str, bytes | None]]:
        """Messages from hosts, after at most this long; None: that host is done.

        Raises:
            Lost: A host is gone, along with what it was doing.
        """
        import ray

        if not self._streams:
            time.sleep(min(wait_s, 0.05))
            return
        ready, _ = ray.wait(list(self._streams), num_returns=1, timeout=wait_s)
        for stream in ready:
            host = self._streams[stream]
            try:
                data = bytes(ray.get(next(stream)))
            except StopIteration:
                del self._streams[stream]
                yield host, None
            except ray.exceptions.RayTaskError:  # a fault of ours, not of its node
                raise
            except ray.exceptions.RayError:
                del self._streams[stream]
                raise Lost(host) from None
            else:
                yield host, data

    def fetch(self, host: str, chunk: str) -> bytes:
        """Trials that an earlier driver did not receive. Raises Lost."""
        import ray

        try:
            return bytes(ray.get(self._actors[host].fetch.remote(wire.packed(chunk)), timeout=PATIENCE_S))
        except ray.exceptions.RayError:
            raise Lost(host) from None

    def drop(self, host: str) -> None:
        """Abandon a host: messages from an orphan of it are ignored."""
        self._streams = {stream: owner for stream, owner in self._streams.items() if owner != host}
        self.hosts.pop(host, None)
        self._kill(self._actors.pop(host, None))

    def close(self) -> None:
        """Shut all of them down cleanly."""
        import ray

        ended = [actor.close.remote() for actor in self._actors.values()]
        with suppress(ray.exceptions.RayError):
            ray.wait(ended, num_returns=len(ended), timeout=CLOSE_S)

    def kill(self) -> None:
        """Kill all of them at once; their tenants die with them."""
        for actor in self._actors.values():
            self._kill(actor)
        self._actors = {}
        self._streams = {}

    def _kill(self, actor: Any) -> None:
        import ray

        if actor is not None:
            with suppress(Exception):  # it may be gone, and so may the cluster
                ray.kill(actor)
