"""Which device of the cluster serves which tenants: a plan's devices, or all tenants of a file on every device."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cotenant.errors import FleetError
from cotenant.fleet.selection import ALL, Host, select
from cotenant.fleet.surveying import Surveyed
from cotenant.serving.tenants_file import TenantsFile, planned_devices, read_tenants
from cotenant.tenancy.device_names import DeviceName
from cotenant.text import amount


@dataclass(frozen=True, slots=True)
class ServerPlacement:
    """Tenants on a device."""

    host: Host
    file: TenantsFile
    """Its device is the name on the node."""
    planned: str | None = None
    """Name of the device in the plan."""

    @property
    def name(self) -> str:
        """Name in tables and messages."""
        return f"{self.host.node.name}/{self.file.device}" if self.host.simulated else self.host.name

    def on(self, host: Host) -> "ServerPlacement":
        """The same tenants elsewhere."""
        return replace(self, host=host, file=self.file.model_copy(update={"device": local_name(host)}))


def place(
    path: Path, devices: str | None, nodes: Sequence[Surveyed]
) -> tuple[tuple[ServerPlacement, ...], tuple[Host, ...]]:
    """Place the tenants of a file, and return the devices that are left over.

    Args:
        path: A plan or a tenants file.
        devices: Which of the cluster's devices; None: every GPU, or the CPU of nodes without one.
        nodes: The available nodes.

    Raises:
        StudyError: The file is wrong.
        FleetError: The cluster lacks a device of the plan, or several nodes have the same device.
    """
    planned = planned_devices(path)
    if not planned:
        file = read_tenants(path)
        if DeviceName(file.device).simulated:
            return tuple(ServerPlacement(_simulated(node, file.device), file) for node in nodes), ()
        hosts = select(devices or ALL, nodes)
        return tuple(ServerPlacement(host, file, None).on(host) for host in hosts), ()
    real = any(not DeviceName(name).simulated for name in planned)
    free = list(select(devices or ALL, nodes)) if real else []
    chosen = {name: host for name in planned for host in free if name in (host.name, host.identities[0])}
    free = [host for host in free if host not in chosen.values()]
    found = []
    for number, name in enumerate(planned):
        file = read_tenants(path, name)
        if DeviceName(name).simulated:
            found.append(ServerPlacement(_simulated(nodes[number % len(nodes)], name), file, name))
            continue
        host = chosen.get(name) or next((spare for spare in free if _kind(spare.device) == _kind(name)), None)
        if host is None:
            raise FleetError(
                f"{path} has {amount(len(planned), 'device')}, and the cluster has none left for {name}",
                hint="`cotenant devices --on ray` lists its devices; plan for those, or start more nodes",
            )
        free = [spare for spare in free if spare is not host]
        found.append(ServerPlacement(host, file, name).on(host))
    return tuple(found), tuple(free)


def local_name(host: Host) -> str:
    """How the host's node finds its device: a GPU by its UUID, as its number may change."""
    uuid = host.identities[0]
    return f"cuda:{uuid}" if uuid.startswith(("GPU-", "MIG-")) else host.device


def _kind(device: str) -> str:
    return device.partition(":")[0]


def _simulated(node: Surveyed, device: str) -> Host:
    return Host(node.node, device, (device,), (device,), device, simulated=True)
