"""The servers of a plan on a cluster: start them, renew their leases, and serve elsewhere what a lost one served."""

import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from cotenant.errors import CotenantError, DeviceBusy, FleetError
from cotenant.fleet import wire
from cotenant.fleet.cluster import PATIENCE_S, Cluster, Node
from cotenant.fleet.selection import Host
from cotenant.fleet.serving.keeper import Keeper
from cotenant.fleet.serving.placing import ServerPlacement
from cotenant.fleet.surveying import CLOCK_S
from cotenant.serving.tenants_file import TenantsFile
from cotenant.tenancy.device_names import DeviceName

LEASE_S = 2.0
RENEW_S = 0.4
LOAD_S = 900.0
"""Timeout for a device's server to load its models."""
ROUTE_S = 3.0
"""How long to wait until front ends have heard from the devices of a new table."""
UNLOCK_S = 5.0
THREADS = 8
"""Calls that an actor takes at once: one watches, others renew, change or stop."""


@dataclass(slots=True)
class Server:
    """A device's server."""

    placement: ServerPlacement
    actor: Any
    epoch: int
    url: str = ""
    costs_s: Mapping[str, float] | None = None
    basis: str = "measured"
    leased_until: float = 0.0


class Fleet:
    """All servers and front ends of a plan."""

    def __init__(
        self,
        cluster: Cluster,
        spare: Sequence[Host],
        *,
        secret: str,
        drain_s: float,
        owner: str,
        say: Callable[[str], None],
    ) -> None:
        self._cluster, self._secret, self._drain_s, self._owner, self._say = cluster, secret, drain_s, owner, say
        self.spare = list(spare)
        self.servers: dict[str, Server] = {}
        self.fronts: dict[str, Any] = {}
        """By node."""
        self.urls: dict[str, str] = {}
        self._reopen: dict[str, Callable[[], None]] = {}
        self._epochs = itertools.count(1)
        self._homeless: set[str] = set()
        """Tenants of lost servers that no other serves yet."""
        self._watched: dict[Any, str] = {}
        self._lock, self._joining = threading.Lock(), threading.Lock()
        self._ended = threading.Event()
        self._renewing = threading.Thread(target=self._renew, name="leases", daemon=True)

    def start(self, placements: Sequence[ServerPlacement]) -> None:
        """Start all device servers at once. Raises CotenantError if one can't serve."""
        self._renewing.start()
        begun = [self._begin(placement) for placement in placements]
        for server, reply in begun:
            self._finish(server, reply)

    def open_front(self, node: Node, agent: Any, order: Mapping[str, Any]) -> None:
        """Start the front end of a node. Raises CotenantError."""
        whole = {**order, "kind": "front", "secret": self._secret}
        said = _got(agent.start.remote(wire.packed(whole)), PATIENCE_S, node.name)
        self.fronts[node.name] = agent
        self.urls[node.name] = str(said["url"])
        self._reopen[node.name] = lambda: self.open_front(node, agent, {**order, "port": _place(said["url"])[1]})
        self._watched[agent.watch.remote()] = f"front {node.name}"

    def route(self, *, wait: bool = True) -> None:
        """Tell every front end which server owns which device, and which tenants there are."""
        import ray

        served = {tenant for server in self.servers.values() for tenant in server.placement.file.tenants}
        self._homeless -= served
        tenants = sorted(served | self._homeless)
        owners = {name: [*_place(server.url), server.epoch] for name, server in self.servers.items()}
        told = [
            agent.tell.remote(wire.packed({"owners": owners, "tenants": tenants})) for agent in self.fronts.values()
        ]
        if wait:
            with suppress(ray.exceptions.RayError):
                ray.wait(told, num_returns=len(told), timeout=ROUTE_S)

    def lost(self, wait_s: float) -> list[ServerPlacement]:
        """Servers that were lost, after at most this long; front ends stop sending to them."""
        import ray

        if not self._watched:  # all are being moved
            time.sleep(wait_s)
            return []
        ended, _ = ray.wait(list(self._watched), num_returns=1, timeout=wait_s)
        if ended:  # a node takes all of its processes with it
            ended, _ = ray.wait(list(self._watched), num_returns=len(self._watched), timeout=0)
        gone = []
        for watched in ended:
            name = self._watched.pop(watched)
            if name.startswith("front "):
                self._front_lost(name.removeprefix("front "), watched)
                continue
            with self._lock:
                server = self.servers.pop(name)
            gone.append(server.placement)
            self._homeless |= set(server.placement.file.tenants)
            self._fenced = max(self._fenced, server.leased_until + CLOCK_S)
            with suppress(Exception):
                ray.kill(server.actor)
        if gone:
            self.route(wait=False)  # others may be lost too, and their tenants wait
        return gone

    def _front_lost(self, node: str, ended: Any) -> None:
        """Start a front end again on the same port if only its process ended."""
        import ray

        self.fronts.pop(node, None)
        with suppress(ray.exceptions.RayError, CotenantError):
            ray.get(ended)  # raises if the actor is gone too
            self._reopen[node]()
            self.route()
            self._say(f"the front end of {node} ended and was started again")
            return
        self._say(f"the front end of {node} is lost: {self.urls.pop(node, '')} is not served any more")

    _fenced = 0.0
    """Time of day from which no lost server can answer any more."""

    def replace(self, placement: ServerPlacement) -> str | None:
        """Serve what a lost device served: on a free device, or beside the tenants of others. Return where.

        Several may be replaced at once.
        """
        tried: list[Host] = []
        while (host := self._next_host(placement, tried)) is not None:
            tried.append(host)
            moved = (
                placement.on(host) if not host.simulated else ServerPlacement(host, placement.file, placement.planned)
            )
            try:
                self._take_over(moved)
            except CotenantError as error:
                self._say(f"{host.name} can't take over: {error.message}")
                if host is not placement.host:
                    self.spare.append(host)
                continue
            self.route()
            return moved.name
        with self._joining:
            return self._beside(placement)

    def _next_host(self, placement: ServerPlacement, tried: Sequence[Host]) -> Host | None:
        """Its own device, then free ones, which are taken."""
        alive = {node.id for node in self._cluster.nodes()}
        with self._lock:
            for host in (placement.host, *self.spare):
                if host not in tried and host.node.id in alive and _alike(host, placement.host):
                    if host in self.spare:
                        self.spare.remove(host)
                    return host
        return None

    def _take_over(self, placement: ServerPlacement) -> None:
        """Start a server; the actor of a lost one may hold its lock for a moment. Raises CotenantError."""
        give_up = time.monotonic() + UNLOCK_S
        while True:
            try:
                self._finish(*self._begin(placement), wait=True)
            except DeviceBusy:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.2)
            else:
                return

    def _beside(self, placement: ServerPlacement) -> str | None:
        """Add tenants that no other device serves to the device with the fewest of its kind."""
        served = {tenant for server in self.servers.values() for tenant in server.placement.file.tenants}
        missing = {name: tenant for name, tenant in placement.file.tenants.items() if name not in served}
        if not missing:
            return ", ".join(
                name
                for name, server in self.servers.items()
                if set(server.placement.file.tenants) & set(placement.file.tenants)
            )
        for server in sorted(self.servers.values(), key=lambda server: len(server.placement.file.tenants)):
            file = _joined(server.placement.file, missing)
            if file is None or not _alike(server.placement.host, placement.host):
                continue
            try:
                self.change(server, file)
            except CotenantError as error:
                self._say(f"{server.placement.name} can't take over: {error.message}")
                continue
            return server.placement.name
        return None

    def change(self, server: Server, file: TenantsFile) -> Mapping[str, Any]:
        """Give a device's server new tenants or contracts. Raises CotenantError; then nothing changes."""
        order = wire.packed({"file": file.model_dump(mode="json")})
        said = _got(server.actor.tell.remote(order), LOAD_S, server.placement.name)
        server.placement = ServerPlacement(server.placement.host, file, server.placement.planned)
        self.route()
        return said

    def state(self) -> Mapping[str, Any] | None:
        """The state as one front end knows it; None if none replies."""
        for node, agent in self.fronts.items():
            with suppress(CotenantError):
                return _got(agent.tell.remote(wire.packed({})), 2.0, node)
        return None

    def stop(self) -> None:
        """Finish accepted requests: front ends first, then devices."""
        import ray

        for actors in (list(self.fronts.values()), [server.actor for server in self.servers.values()]):
            ended = [actor.stop.remote(wire.packed(self._drain_s)) for actor in actors]
            with suppress(ray.exceptions.RayError):
                ray.wait(ended, num_returns=len(ended), timeout=self._drain_s + 10.0)
        self.kill()

    def kill(self) -> None:
        """End everything at once."""
        import ray

        self._ended.set()
        for actor in (*self.fronts.values(), *(server.actor for server in self.servers.values())):
            with suppress(Exception):  # it may be gone, and so may the cluster
                ray.kill(actor)

    def _begin(self, placement: ServerPlacement) -> tuple[Server, Any]:
        actor = self._cluster.actor(Keeper, placement.host.node, calls=THREADS)
        server = Server(placement, actor, next(self._epochs), leased_until=time.time() + LEASE_S)
        order = {
            "kind": "device",
            "file": placement.file.model_dump(mode="json"),
            "host": placement.host.node.address,
            "secret": self._secret,
            "epoch": server.epoch,
            "until_utc_s": server.leased_until,
            "drain_s": self._drain_s,
            "owner": self._owner,
        }
        return server, actor.start.remote(wire.packed(order))

    def _finish(self, server: Server, reply: Any, *, wait: bool = False) -> None:
        said = _got(reply, LOAD_S, server.placement.name)
        server.url, server.basis, server.costs_s = str(said["url"]), str(said["basis"]), said["costs_s"]
        if wait:  # the server that was lost may still answer until its lease ends
            time.sleep(max(0.0, self._fenced - time.time()))
        with self._lock:
            self.servers[server.placement.name] = server
        self._extend([server])
        self._watched[server.actor.watch.remote()] = server.placement.name

    def _renew(self) -> None:
        while not self._ended.wait(RENEW_S):
            with self._lock:
                servers = list(self.servers.values())
            with suppress(Exception):  # a lost actor is noticed by its watch
                self._extend(servers)

    def _extend(self, servers: Sequence[Server]) -> None:
        until = time.time() + LEASE_S
        for server in servers:
            server.leased_until = until
            server.actor.renew.remote(wire.packed(until))


def _got(reply: Any, within_s: float, where: str) -> Mapping[str, Any]:
    import ray

    try:
        said: Mapping[str, Any] = wire.unpacked(ray.get(reply, timeout=within_s))
    except ray.exceptions.GetTimeoutError:
        raise FleetError(f"{where} did not reply within {within_s:g} s", hint="check its node: ray status") from None
    except ray.exceptions.RayTaskError:
        raise
    except ray.exceptions.RayError:
        raise FleetError(f"{where} was lost", hint="check its node: ray status") from None
    wire.raise_problem(said, where)
    return said


def _joined(file: TenantsFile, more: Mapping[str, Any]) -> TenantsFile | None:
    """Both together; the added ones without a share of their own where the shares don't fit. None if they can't be."""
    from pydantic import ValidationError

    data = file.model_dump(mode="json")
    for keep in (True, False):
        added = {
            name: tenant.model_dump(mode="json") | ({} if keep else {"share": None}) for name, tenant in more.items()
        }
        with suppress(ValidationError):
            return TenantsFile.model_validate({**data, "tenants": {**data["tenants"], **added}})
    return None


def _alike(host: Host, other: Host) -> bool:
    return host.simulated == other.simulated and DeviceName(host.device).family == DeviceName(other.device).family


def _place(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port
