"""Who is on a GPU, by the driver's list of processes: strangers, and whether servers that should be there are."""

from collections.abc import Collection, Sequence
from pathlib import Path

from cotenant.devices.nvidia.nvml import GpuFacts, processes
from cotenant.devices.protocol import SeatReport
from cotenant.errors import DeviceError

_SERVANTS = ("nvidia-cuda-mps", "nvidia-persistenced")
"""Processes of the driver itself."""


def others_on(gpu: GpuFacts, name: str, own: Collection[int], proc: Path = Path("/proc")) -> tuple[str, ...]:
    """One sentence for each.

    Args:
        gpu: Where to look.
        name: The device's, for the sentences.
        own: The study's processes.
        proc: Where processes are listed. In a container the driver may name processes by numbers of the host: a
            number that is unknown here counts only if the study's own ones are seen as well.
    """
    try:
        found = processes(gpu)
    except DeviceError:  # a GPU that is gone is reported elsewhere
        return ()
    same_numbers = any(process.pid in own for process in found)
    return tuple(
        f"process {process.pid} ({process.name or 'name unknown'}) is on {name} too"
        for process in found
        if process.pid not in own
        and (same_numbers or (proc / str(process.pid)).exists())
        and not Path(process.name or "").name.startswith(_SERVANTS)
    )


def servers_elsewhere(gpu: GpuFacts, name: str, reports: Sequence[SeatReport]) -> list[str]:
    """One sentence for each tenant whose server holds no context on the GPU that it should run on.

    A server can't be asked where it runs, as a tenant's own process can. In a container the driver may name processes
    by numbers of the host: without a single known one nothing can be said.
    """
    servers = {report.tenant: set(report.observed.get("server_pids", ())) for report in reports}
    servers = {tenant: pids for tenant, pids in servers.items() if pids}
    if not servers:
        return []
    try:
        there = {process.pid for process in processes(gpu)}
    except DeviceError:  # a GPU that is gone is reported elsewhere
        return []
    known = set().union(*servers.values()) | {report.pid for report in reports}
    if there and not there & known:
        return []
    return [
        f"the server of {tenant} is not on {name}: the driver lists none of its processes there"
        for tenant, pids in servers.items()
        if not pids & there
    ]
