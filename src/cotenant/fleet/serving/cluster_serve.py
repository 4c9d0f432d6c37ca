"""Serve a plan on the devices of a cluster until a signal arrives."""

import json
import os
import secrets
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cotenant import interruption
from cotenant.errors import CotenantError, FleetError
from cotenant.fleet.cluster import connected
from cotenant.fleet.serving.keeper import Keeper
from cotenant.fleet.serving.placing import ServerPlacement, place
from cotenant.fleet.serving.served_fleet import THREADS, Fleet
from cotenant.fleet.surveying import Survey, differences, held_back, survey
from cotenant.serving.server import Listening, check_exposure, is_local
from cotenant.serving.tenants_file import planned_devices, read_tenants
from cotenant.text import amount

WAIT_S = 0.25
LOOK_S = 1.0
"""Seconds between looks at the headroom."""
LOCAL = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class OnCluster:
    """Where a plan is served."""

    on: str
    devices: str | None = None
    insecure: bool = False
    when_full: Sequence[str] = ()
    """A command that gets the next step as JSON on its standard input when a tenant's headroom is gone."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What is served, once requests are accepted."""

    urls: Mapping[str, str]
    """Of each node's front end."""
    devices: Mapping[str, Mapping[str, Any]]
    """Each device: its tenants, with the cost of a request, and the basis of that."""


def serve(
    path: Path,
    where: OnCluster,
    listening: Listening,
    *,
    ready: Callable[[Opened], None],
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve until SIGTERM or Ctrl-C; then finish accepted requests.

    Args:
        path: A plan, or a tenants file: then every device serves all of its tenants.
        where: The cluster and its devices.
        listening: Where front ends listen; by default on their own machine only.
        ready: Called once requests are accepted.
        say: Gets a sentence about each change.

    Raises:
        CotenantError: It can't be served.
    """
    for device in planned_devices(path) or (None,):
        read_tenants(path, device)  # a mistake in the file shows before nodes are asked
    with interruption.heard(), connected(where.on, insecure=where.insecure) as cluster:
        found = survey(cluster, insecure=where.insecure, kind=Keeper, calls=THREADS)
        for sentence in (*differences(found.nodes), *held_back(found.nodes)):
            say(sentence)
        placements, spare = place(path, where.devices, found.nodes)
        _check_exposure(placements, listening)
        fleet = Fleet(
            cluster,
            spare,
            secret=secrets.token_urlsafe(24),
            drain_s=listening.drain_s,
            owner=f"{socket.gethostname()}:{os.getpid()} serve {path.name}",
            say=say,
        )
        try:
            nodes = len({placement.host.node.id for placement in placements})
            say(f"starting {amount(len(placements), 'device')} on {amount(nodes, 'node')}")
            fleet.start(placements)
            _open_fronts(fleet, found, placements, listening)
            fleet.route()
            ready(_opened(fleet))
            _keep(fleet, path, where, say)
        except KeyboardInterrupt:
            say("finishing accepted requests")
            fleet.stop()
        finally:
            fleet.kill()


def _keep(fleet: Fleet, path: Path, where: OnCluster, say: Callable[[str], None]) -> None:
    """Replace what is lost, apply changes of the file, offer the next step, until interrupted."""
    headroom, look_at = Headroom(), 0.0
    changed = path.stat().st_mtime_ns
    moves: list[Move] = []
    while True:
        interruption.obey()
        moves = [move for move in moves if move.goes_on()]
        for placement in fleet.lost(WAIT_S):
            say(f"{placement.name} is lost")
            moves.append(Move(fleet, placement, say))
        if not fleet.servers and not moves:
            raise FleetError("every device is gone", hint="start nodes again, then this command")
        if time.monotonic() < look_at:
            continue
        look_at = time.monotonic() + LOOK_S
        if (now := _changed(path, changed)) != changed:
            changed = now
            _apply(fleet, path, say)
        state = fleet.state()
        if state is not None:
            for tenant in headroom.short(state, time.monotonic()):
                _offer(next_step(tenant, state, [host.name for host in fleet.spare]), where.when_full, say)


class Move(threading.Thread):
    """Serves the tenants of a lost device elsewhere, beside other moves: a lost node may have had many devices."""

    def __init__(self, fleet: Fleet, placement: ServerPlacement, say: Callable[[str], None]) -> None:
        super().__init__(name=f"move {placement.name}", daemon=True)
        self._fleet, self._placement, self._say = fleet, placement, say
        self._failure: Exception | None = None
        self.start()

    def run(self) -> None:
        """Move, and say where to."""
        begin = time.monotonic()
        try:
            there = self._fleet.replace(self._placement)
        except Exception as error:  # noqa: BLE001 - raised where the move is awaited
            self._failure = error
            return
        tenants = ", ".join(self._placement.file.tenants)
        took = f"after {time.monotonic() - begin:.1f} s"
        self._say(f"{tenants}: served by {there} {took}" if there else f"{tenants}: no device left; start a node")

    def goes_on(self) -> bool:
        """Whether it hasn't ended. Raises what it failed with."""
        if self._failure is not None:
            raise self._failure
        return self.is_alive()


def _changed(path: Path, before: int) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return before


def _apply(fleet: Fleet, path: Path, say: Callable[[str], None]) -> None:
    """Give the devices the new version of the file; one that can't be applied changes nothing there."""
    for server in list(fleet.servers.values()):
        held = server.placement
        try:
            file = read_tenants(path, held.planned).model_copy(update={"device": held.file.device})
            if file != held.file:
                fleet.change(server, file)
                say(f"{held.name} serves the new {path.name}")
        except CotenantError as error:
            say(f"{held.name} keeps its tenants: {error.message}")


def _offer(step: Mapping[str, Any], command: Sequence[str], say: Callable[[str], None]) -> None:
    what = step["step"] if step["device"] is None else f"{step['step']}, {step['device']}"
    say(f"{step['tenant']} has no headroom left; next step: {what}")
    if command:
        try:
            subprocess.run(
                list(command), input=json.dumps(step), text=True, timeout=30, check=True, stdout=subprocess.DEVNULL
            )
        except (OSError, subprocess.SubprocessError) as error:
            say(f"{command[0]} failed: {error}")


def _open_fronts(fleet: Fleet, found: Survey, placements: Sequence[ServerPlacement], listening: Listening) -> None:
    files = [placement.file for placement in placements]
    order = {
        "port": listening.port,
        "tls_cert": listening.tls_cert,
        "tls_key": listening.tls_key,
        "admin_key": next((file.admin_key for file in files if file.admin_key), None),
        "locked": any(tenant.key for file in files for tenant in file.tenants.values()),
    }
    for surveyed in found.nodes:
        # Nodes of one machine have loopback addresses of their own.
        own = surveyed.node.address if is_local(surveyed.node.address) and is_local(listening.host) else listening.host
        fleet.open_front(surveyed.node, found.agents[surveyed.node.name], {**order, "host": own})


def _check_exposure(placements: Sequence[ServerPlacement], listening: Listening) -> None:
    for placement in placements:
        check_exposure(placement.file, listening)


def _opened(fleet: Fleet) -> Opened:
    return Opened(
        dict(fleet.urls),
        {
            name: {"basis": server.basis, "tenants": dict(server.costs_s or {})}
            for name, server in fleet.servers.items()
        },
    )


# --- when a plan's load outgrows its devices: the tenants without headroom, and the next step that is offered. Pure

FULL = 0.8
"""A tenant is short of headroom where a new request would take this part of its objective on every device."""
FOR_S = 5.0
"""For this long, without a break."""
AGAIN_S = 60.0
"""An offer is repeated after this long."""


@dataclass(slots=True)
class Headroom:
    """Follows the state of front ends over time."""

    since_s: dict[str, float] = field(default_factory=dict)
    offered_s: dict[str, float] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)

    def short(self, state: Mapping[str, Any], now: float) -> list[str]:
        """Tenants to offer a step for, given a front end's state."""
        by_tenant: dict[str, list[Mapping[str, Any]]] = {}
        for device in state["devices"]:
            if device["up"]:
                for tenant, load in device["tenants"].items():
                    by_tenant.setdefault(tenant, []).append(load)
        found = []
        for tenant, loads in by_tenant.items():
            refused = sum(int(load["not_served"]) for load in loads)
            grew = refused > self.refused.get(tenant, refused)
            self.refused[tenant] = refused
            if not grew and any(load["finish_s"] < FULL * load["objective_s"] for load in loads):
                self.since_s.pop(tenant, None)
                continue
            began = self.since_s.setdefault(tenant, now)
            if now - began >= FOR_S and now - self.offered_s.get(tenant, float("-inf")) >= AGAIN_S:
                self.offered_s[tenant] = now
                found.append(tenant)
        return found


def next_step(tenant: str, state: Mapping[str, Any], spare: Sequence[str]) -> dict[str, Any]:
    """The step that gives a tenant more room: a device of the cluster that is free, else a new one."""
    serving = [device["device"] for device in state["devices"] if tenant in device["tenants"]]
    step: dict[str, Any] = {"tenant": tenant, "served_by": serving, "devices": len(state["devices"]) + 1}
    if spare:
        return {**step, "step": "use a free device", "device": spare[0]}
    return {**step, "step": "add a node", "device": None}
