"""Memory in use: /proc/meminfo."""

from collections.abc import Sequence

from cotenant.devices.protocol import SensorInfo
from cotenant.devices.tree import HeldOpen, Tree

_MEMINFO = "/proc/meminfo"


class MemoryProbe:
    """Memory and swap of the whole machine."""

    def __init__(self, file: HeldOpen) -> None:
        self._file = file
        quality = "level of the whole machine; cores report small changes up to 1 s late"
        self.sensors: tuple[SensorInfo, ...] = (
            SensorInfo("memory_used_bytes", "B", _MEMINFO, 0.1, f"{quality}; total minus available"),
            SensorInfo("memory_available_bytes", "B", _MEMINFO, 0.1, f"{quality}; the kernel's estimate"),
            SensorInfo("swap_used_bytes", "B", _MEMINFO, 0.1, quality),
        )

    def read(self) -> Sequence[float]:
        """Bytes used, available, and swapped out."""
        data = self._file.read()
        available = _bytes(data, b"MemAvailable:")
        return (
            _bytes(data, b"MemTotal:") - available,
            available,
            _bytes(data, b"SwapTotal:") - _bytes(data, b"SwapFree:"),
        )


def _bytes(data: bytes, name: bytes) -> float:
    at = data.find(name)
    return float("nan") if at < 0 else float(data[at + len(name) :].split(None, 1)[0]) * 1024


def open_memory(tree: Tree) -> MemoryProbe | None:
    """The probe, if the kernel tells."""
    try:
        return MemoryProbe(HeldOpen(tree.path(_MEMINFO)))
    except OSError:
        return None
