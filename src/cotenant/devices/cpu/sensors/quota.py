"""How long a container's quota kept its threads from running."""

from collections.abc import Sequence

from cotenant.devices.cpu.cgroup import quota_statistics
from cotenant.devices.protocol import SensorInfo
from cotenant.devices.tree import HeldOpen, Tree

_UNITS = {b"throttled_usec": 1e-6, b"throttled_time": 1e-9}
"""Versions 2 and 1 of control groups count in different units."""


class QuotaProbe:
    """Time during which the quota stopped threads."""

    def __init__(self, file: HeldOpen, source: str) -> None:
        self._file = file
        quality = "counter over all threads of the container, moves once per quota period"
        self.sensors: tuple[SensorInfo, ...] = (SensorInfo("cpu_throttled_s", "s", source, 0.1, quality),)

    def read(self) -> Sequence[float]:
        """Thread-seconds spent waiting for the next quota period."""
        for line in self._file.read().split(b"\n"):
            name, _, value = line.partition(b" ")
            if name in _UNITS:
                return (int(value) * _UNITS[name],)
        return (float("nan"),)


def open_quota(tree: Tree) -> QuotaProbe | None:
    """The probe, if there is a quota."""
    source = quota_statistics(tree)
    if source is None:
        return None
    try:
        return QuotaProbe(HeldOpen(tree.path(source)), source)
    except OSError:
        return None
