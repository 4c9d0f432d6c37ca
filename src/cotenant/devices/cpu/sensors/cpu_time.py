"""CPU time of the device's cores, time stolen by the hypervisor, context switches: /proc/stat."""

import os
from collections.abc import Sequence

from cotenant.devices.cpu.cores import Cores
from cotenant.devices.protocol import SensorInfo
from cotenant.devices.tree import HeldOpen, Tree

_STAT = "/proc/stat"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_USER, _NICE, _SYSTEM, _IDLE, _IOWAIT, _IRQ, _SOFTIRQ, _STEAL = range(8)
_BUSY = (_USER, _NICE, _SYSTEM, _IRQ, _SOFTIRQ)
_KERNEL = (_SYSTEM, _IRQ, _SOFTIRQ)

BUSY, STEAL = 0, 2
"""Where a reading holds these times."""


class TimeProbe:
    """CPU time of some cores, from the kernel's accounting."""

    def __init__(self, file: HeldOpen, cores: Cores) -> None:
        self._file = file
        self._prefixes = frozenset(f"cpu{core}".encode() for core in cores)
        step = 1 / _TICKS_PER_S
        in_ticks = f"counter over the device's cores, in steps of {step * 1e3:g} ms per core"
        self.sensors: tuple[SensorInfo, ...] = (
            SensorInfo("cpu_busy_s", "s", _STAT, step, f"{in_ticks}; all processes of the machine"),
            SensorInfo("cpu_kernel_s", "s", _STAT, step, f"{in_ticks}; the part of busy time spent in the kernel"),
            SensorInfo("cpu_steal_s", "s", _STAT, step, f"{in_ticks}; 0 where the hypervisor doesn't tell"),
            SensorInfo("context_switches", "count", _STAT, step, "exact counter of the whole machine"),
        )

    def read(self) -> Sequence[float]:
        """Busy, kernel and stolen seconds of the device's cores; context switches of the machine."""
        data = self._file.read()
        ticks = [0] * 8
        for line in data.split(b"\n"):
            if not line.startswith(b"cpu"):
                break
            fields = line.split()
            if fields[0] in self._prefixes:
                for i, field in enumerate(fields[1:9]):
                    ticks[i] += int(field)
        busy = sum(ticks[i] for i in _BUSY)
        kernel = sum(ticks[i] for i in _KERNEL)
        return (busy / _TICKS_PER_S, kernel / _TICKS_PER_S, ticks[_STEAL] / _TICKS_PER_S, _context_switches(data))


def _context_switches(data: bytes) -> float:
    at = data.find(b"\nctxt ")
    return float("nan") if at < 0 else float(data[at + 6 : data.find(b"\n", at + 6)])


def open_time(tree: Tree, cores: Cores) -> TimeProbe | None:
    """The probe, if the kernel accounts."""
    try:
        return TimeProbe(HeldOpen(tree.path(_STAT)), cores)
    except OSError:
        return None
