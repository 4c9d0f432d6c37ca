"""Processes on a GPU, from the driver's list: strangers, and servers that should be there."""

from collections.abc import Collection, Sequence
from pathlib import Path

from cotenant.devices.nvidia.nvml import GpuFacts, processes
from cotenant.devices.protocol import SeatReport
from cotenant.errors import DeviceError

_SERVANTS = ("nvidia-cuda-mps", "nvidia-persistenced")
"""Processes of the driver itself."""


def others_on(gpu: GpuFacts, name: str, own: Collection[int], proc: Path = Path("/proc")) -> tuple[str, ...]:
    """One sentence for each foreign process on the GPU.

    Args:
        gpu: Where to look.
        name: The device's, for messages.
        own: The study's processes.
        proc: Where processes are listed. In a container the driver may report pids of the host: a pid
            unknown here counts only if the study's own pids are listed as well.
    """
    try:
        found = processes(gpu)
    except DeviceError:  # a lost GPU is reported elsewhere
        return ()
    same_numbers = any(process.pid in own for process in found)
    return tuple(
        f"process {process.pid} ({process.name or 'name unknown'}) is also on {name}"
        for process in found
        if process.pid not in own
        and (same_numbers or (proc / str(process.pid)).exists())
        and not Path(process.name or "").name.startswith(_SERVANTS)
    )


def servers_elsewhere(gpu: GpuFacts, name: str, reports: Sequence[SeatReport]) -> list[str]:
    """One sentence for each tenant whose server has no context on the GPU it should run on.

    Unlike a tenant's own process, a server can't report where it runs. In a container the driver may report pids
    of the host: unless at least one is known, nothing is concluded.
    """
    servers = {report.tenant: set(report.observed.get("server_pids", ())) for report in reports}
    servers = {tenant: pids for tenant, pids in servers.items() if pids}
    if not servers:
        return []
    try:
        there = {process.pid for process in processes(gpu)}
    except DeviceError:  # a lost GPU is reported elsewhere
        return []
    known = set().union(*servers.values()) | {report.pid for report in reports}
    if there and not there & known:
        return []
    return [
        f"the server of {tenant} is not on {name}: the driver lists none of its processes there"
        for tenant, pids in servers.items()
        if not pids & there
    ]
