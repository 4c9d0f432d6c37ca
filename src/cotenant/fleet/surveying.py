"""Query all nodes and check that they are compatible, before the first trial."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cotenant import __version__
from cotenant.errors import FleetError
from cotenant.fleet import wire
from cotenant.fleet.agent import NodeAgent
from cotenant.fleet.cluster import PATIENCE_S, TOKEN, Cluster, Node
from cotenant.fleet.worker import DeviceWorker

CLOCK_S = 1.0
"""With a larger difference between clocks, the order of events is unreliable."""
SAID = ("torch", "python", "ray")
"""Versions that may differ, with a warning."""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A node and its facts."""

    node: Node
    facts: Mapping[str, Any]
    behind_s: float
    """Offset of its clock from ours."""

    @property
    def versions(self) -> Mapping[str, str | None]:
        """Versions of the packages that matter."""
        versions: Mapping[str, str | None] = self.facts["versions"]
        return versions


@dataclass(frozen=True, slots=True)
class Survey:
    """All nodes, and the agents that represent them."""

    nodes: tuple[Surveyed, ...]
    agents: Mapping[str, Any]
    """By node name; each can own a device of its node as well: a process takes seconds to start."""


def survey(cluster: Cluster, *, insecure: bool = False, kind: type[NodeAgent] = DeviceWorker, calls: int = 1) -> Survey:
    """Query every node.

    Args:
        cluster: The cluster.
        insecure: Accept nodes without tokens.
        kind: What represents a node.
        calls: How many calls it takes at once.

    Raises:
        FleetError: A node lacks the package, has no authentication, or its clock or its cotenant differs from ours.
    """
    nodes = cluster.nodes()
    agents = {node.name: cluster.actor(kind, node, calls=calls) for node in nodes}
    asked = {name: agent.survey.remote() for name, agent in agents.items()}
    facts = {node.name: _answer(asked[node.name], node) for node in nodes}
    behind = {node.name: _behind_s(agents[node.name], node) for node in nodes}
    found = tuple(Surveyed(node, facts[node.name], behind[node.name]) for node in nodes)
    require_alike(found, insecure=insecure)
    return Survey(found, agents)


def require_alike(nodes: Sequence[Surveyed], *, insecure: bool) -> None:
    """Refuse nodes that can't work together. Raises FleetError."""
    for node in nodes:
        name = node.node.name
        there = node.versions.get("cotenant")
        if there != __version__:
            raise FleetError(
                f"node {name} has cotenant {there}, and this is {__version__}",
                hint=f"install the same there: pip install 'cotenant[ray]=={__version__}'",
            )
        if node.facts["auth"] != TOKEN and not insecure:
            raise FleetError(
                f"node {name} has no token authentication: anyone who reaches it can run code on it",
                hint="start all nodes with RAY_AUTH_MODE=token; or accept it: --insecure",
            )
        if abs(node.behind_s) > CLOCK_S:
            way = "behind" if node.behind_s > 0 else "ahead of"
            raise FleetError(
                f"the clock of node {name} is {abs(node.behind_s):.1f} s {way} this machine's",
                hint=f"set it by NTP, on {name}: sudo chronyc makestep, or sudo timedatectl set-ntp true",
            )


def differences(nodes: Sequence[Surveyed]) -> Iterator[str]:
    """One sentence for each version that differs between nodes: measurements may differ because of it."""
    for package in SAID:
        yield from _differ(package, {surveyed.node.name: surveyed.versions.get(package) for surveyed in nodes})
    drivers = {
        surveyed.node.name: ", ".join(
            sorted({str(device["driver"]) for device in surveyed.facts["devices"] if device["driver"]})
        )
        for surveyed in nodes
    }
    yield from _differ("the GPU driver", drivers)


def held_back(nodes: Sequence[Surveyed]) -> Iterator[str]:
    """One sentence for each node whose Ray runs at a lowered priority: its tenants would be slower."""
    for surveyed in nodes:
        if surveyed.facts["niceness"] > 0:
            yield (
                f"node {surveyed.node.name} runs its workers at niceness {surveyed.facts['niceness']}; start its Ray "
                "with RAY_worker_niceness=0"
            )


def _differ(what: str, by_node: Mapping[str, str | None]) -> Iterator[str]:
    if len(set(by_node.values())) > 1:
        stated = ", ".join(f"{version or 'none'} on {name}" for name, version in by_node.items())
        yield f"nodes differ in {what}: {stated}"


def _answer(reply: Any, node: Node) -> Mapping[str, Any]:
    import ray

    try:
        said: Mapping[str, Any] = wire.unpacked(ray.get(reply, timeout=PATIENCE_S))
    except ray.exceptions.GetTimeoutError:
        raise FleetError(
            f"node {node.name} did not start a worker within {PATIENCE_S:g} s",
            hint=f"check it: ray status; its logs are in /tmp/ray/session_latest/logs on {node.name}",
        ) from None
    except ray.exceptions.RayError as error:
        raise _lost(node, error) from None
    wire.raise_problem(said, node.name)
    return said


def _lost(node: Node, error: Exception) -> FleetError:
    if any(word in str(error) for word in ("ModuleNotFoundError", "No module named", "ImportError", "AttributeError")):
        return FleetError(
            f"node {node.name} doesn't have cotenant {__version__} where its Ray looks for packages",
            hint=f"install it there, beside the `ray` that was started: pip install 'cotenant[ray]=={__version__}'",
        )
    return FleetError(f"node {node.name} was lost before it replied", hint="check it: ray status")


def _behind_s(agent: Any, node: Node) -> float:
    """Our clock minus theirs, from the fastest of three exchanges."""
    best: tuple[float, float] | None = None
    for _ in range(3):
        asked = time.time()
        there = float(_answer(agent.clock.remote(), node)["utc_s"])
        answered = time.time()
        took = answered - asked
        if best is None or took < best[0]:
            best = took, (asked + answered) / 2 - there
    assert best is not None
    return best[1]
