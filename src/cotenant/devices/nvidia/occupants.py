"""Who else is on a GPU: processes that hold a context there and don't belong to the study."""

from collections.abc import Collection
from pathlib import Path

from cotenant.devices.nvidia.nvml import GpuFacts, processes
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
