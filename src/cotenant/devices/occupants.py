"""Who else is on a device: processes that hold a context there and are none of the study's."""

from collections.abc import Collection, Sequence
from pathlib import Path

from cotenant.devices.group import DeviceGroup
from cotenant.devices.protocol import Device
from cotenant.errors import DeviceError

_SERVANTS = ("nvidia-cuda-mps", "nvidia-persistenced")
"""Processes of the driver itself."""


def others_on(device: Device, own: Collection[int], proc: Path = Path("/proc")) -> tuple[str, ...]:
    """One sentence for each; empty too where the device can't tell who is on it.

    Args:
        device: A device or a group.
        own: The study's processes.
        proc: Where processes are listed. In a container the driver may name processes by numbers of the host: a
            number that is none here counts only if the study's own ones are seen as well.
    """
    members: Sequence[Device] = device.members if isinstance(device, DeviceGroup) else (device,)
    return tuple(sentence for member in members for sentence in _on_one(member, own, proc))


def _on_one(device: Device, own: Collection[int], proc: Path) -> list[str]:
    from cotenant.devices.nvidia.nvml import GpuFacts, processes

    gpu = getattr(device, "gpu", None)
    if not isinstance(gpu, GpuFacts):
        return []
    try:
        found = processes(gpu)
    except DeviceError:  # that it is gone is found out elsewhere
        return []
    same_numbers = any(process.pid in own for process in found)
    return [
        f"process {process.pid} ({process.name or 'name unknown'}) is on {device.name} too"
        for process in found
        if process.pid not in own
        and (same_numbers or (proc / str(process.pid)).exists())
        and not Path(process.name or "").name.startswith(_SERVANTS)
    ]
