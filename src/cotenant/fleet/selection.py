"""Which devices of a cluster take part: `all`, names, globs, labels of nodes, or a simulated fleet."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise

from cotenant.errors import DeviceError, FleetError
from cotenant.fleet.cluster import Node
from cotenant.fleet.surveying import Surveyed
from cotenant.tenancy.device_names import DeviceName

ALL = "all"
FORMS = "all, cpu, cuda:*, NODE/cuda:0, label=value, or sim:v100-sxm2-16gb*392; several with commas"
SIMULATED_ACTORS = 4
"""A process takes seconds to start, and simulated devices can share one."""


@dataclass(frozen=True, slots=True)
class Host:
    """One actor, and the devices that it owns: a real one, or many simulated ones."""

    node: Node
    device: str
    """Its name on its node; for simulated ones the fleet."""
    members: tuple[str, ...]
    """Names within the run."""
    identities: tuple[str, ...]
    """Lasting identities: a UUID, else the name."""
    model: str = ""
    simulated: bool = False
    keys: tuple[str, ...] = ()
    """Key of its lock."""

    @property
    def name(self) -> str:
        """Name in tables and messages."""
        if not self.simulated:
            return self.members[0]
        return (
            self.members[0]
            if len(self.members) == 1
            else f"{self.members[0]} to #{self.members[-1].rpartition('#')[2]}"
        )


def select(wanted: str, nodes: Sequence[Surveyed]) -> tuple[Host, ...]:
    """The devices selected by the user, each with the actor that will own it.

    Args:
        wanted: See `FORMS`.
        nodes: The available nodes.

    Raises:
        FleetError: Nothing matches, or two nodes have the same device.
    """
    parts = [part.strip() for part in wanted.split(",") if part.strip()]
    if any(DeviceName(part).simulated for part in parts):
        if len(parts) > 1:
            raise FleetError(f"{wanted!r} mixes simulated and other devices", hint="measure them in two runs")
        return _simulated(parts[0], [surveyed.node for surveyed in nodes])
    found: dict[tuple[str, str], Host] = {}
    for part in parts or [ALL]:
        mine = [host for surveyed in nodes for host in _of_node(part, surveyed)]
        if not mine:
            raise FleetError(
                f"no device of the cluster matches {part!r}", hint=f"`cotenant devices --on ray` lists them; {FORMS}"
            )
        found |= {(host.node.id, host.device): host for host in mine}
    hosts = tuple(found.values())
    _require_different(hosts, nodes)
    return hosts


def _of_node(part: str, surveyed: Surveyed) -> list[Host]:
    """The devices of a node that match one word of the user."""
    devices = {str(device["name"]): device for device in surveyed.facts["devices"]}
    node = surveyed.node
    if part == ALL:
        gpus = [name for name in devices if not DeviceName(name).on_cpu]
        names = gpus or list(devices)
    elif "=" in part:
        label, _, value = part.partition("=")
        return _of_node(ALL, surveyed) if fnmatchcase(node.labels.get(label, ""), value) else []
    else:
        names = [name for name in devices if fnmatchcase(name, part) or fnmatchcase(f"{node.name}/{name}", part)]
    return [
        Host(
            node,
            name,
            (f"{node.name}/{name}",),
            (str(devices[name]["identity"] or f"{node.name}/{name}"),),
            str(devices[name]["model"]),
            keys=tuple(map(str, devices[name]["keys"])),
        )
        for name in names
    ]


def _require_different(hosts: Sequence[Host], nodes: Sequence[Surveyed]) -> None:
    """Refuse a device that two nodes have: it would be measured twice at the same time."""
    machines = {surveyed.node.id: str(surveyed.facts["machine"]) for surveyed in nodes}
    owners: dict[str, Host] = {}
    for host in hosts:
        for key in host.keys:
            # A UUID is the same device wherever it appears; a core only on the same machine.
            whole = key if key.startswith(("GPU-", "MIG-")) else f"{machines[host.node.id]} {key}"
            other = owners.setdefault(whole, host)
            if other is not host:
                raise FleetError(
                    f"{host.name} and {other.name} are the same device ({key})",
                    hint=f"run one Ray node per machine, or leave one out: --devices '{other.node.name}/*'",
                )


def _simulated(name: str, nodes: Sequence[Node]) -> tuple[Host, ...]:
    """A simulated fleet in a few actors, spread over the nodes in turn."""
    from cotenant.devices import find_device

    device = find_device(name)
    if not device.simulated:
        raise DeviceError(f"{name!r} is not simulated", hint=FORMS)
    members = device.names or (device.name,)
    count = min(len(members), max(SIMULATED_ACTORS, len(nodes)))
    edges = [round(len(members) * index / count) for index in range(count + 1)]
    return tuple(
        Host(nodes[index % len(nodes)], device.name, mine, mine, device.meaning, simulated=True)
        for index, (start, end) in enumerate(pairwise(edges))
        if (mine := tuple(members[start:end]))
    )
