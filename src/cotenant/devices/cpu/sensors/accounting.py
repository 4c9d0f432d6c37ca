"""Kernel accounting: CPU time, a container's quota, time tasks waited, memory in use."""

import logging
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import lru_cache

from cotenant import sensors
from cotenant.devices.child_lines import ChildLines
from cotenant.devices.cpu.cgroup import quota_statistics
from cotenant.devices.cpu.cores import Cores, format_cores, package_cores
from cotenant.devices.protocol import SensorInfo
from cotenant.devices.tree import FileTree, HeldOpen

_STAT = "/proc/stat"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_USER, _NICE, _SYSTEM, _IDLE, _IOWAIT, _IRQ, _SOFTIRQ, _STEAL = range(8)
_BUSY = (_USER, _NICE, _SYSTEM, _IRQ, _SOFTIRQ)
_KERNEL = (_SYSTEM, _IRQ, _SOFTIRQ)

BUSY, STEAL = 0, 2
"""Positions of these times in a reading."""


class TimeProbe:
    """CPU time of some cores, from the kernel's accounting."""

    def __init__(self, file: HeldOpen, cores: Cores, package: Cores = ()) -> None:
        self._file = file
        self._prefixes = frozenset(f"cpu{core}".encode() for core in cores)
        self._package = frozenset(f"cpu{core}".encode() for core in package or cores)
        step = 1 / _TICKS_PER_S
        in_ticks = f"counter over the device's cores, in steps of {step * 1e3:g} ms per core"
        self.sensors: tuple[SensorInfo, ...] = (
            SensorInfo("cpu_busy_s", "s", _STAT, step, f"{in_ticks}; all processes of the machine"),
            SensorInfo("cpu_kernel_s", "s", _STAT, step, f"{in_ticks}; the part of busy time spent in the kernel"),
            SensorInfo("cpu_steal_s", "s", _STAT, step, f"{in_ticks}; 0 where the hypervisor doesn't report it"),
            SensorInfo("context_switches", "count", _STAT, step, "exact counter, machine-wide"),
            SensorInfo("package_busy_s", "s", _STAT, step, "busy time of all cores that share the device's sockets"),
            SensorInfo("package_cores", "count", "/sys/devices/system/cpu", step, "number of these cores"),
        )

    def read(self) -> Sequence[float]:
        """Busy, kernel and stolen seconds of the device's cores; context switches; busy time of the sockets."""
        data = self._file.read()
        ticks = [0] * 8
        shared = 0
        for line in data.split(b"\n"):
            if not line.startswith(b"cpu"):
                break
            fields = line.split()
            if fields[0] in self._package:
                shared += sum(int(fields[1 + i]) for i in _BUSY)
            if fields[0] in self._prefixes:
                for i, field in enumerate(fields[1:9]):
                    ticks[i] += int(field)
        busy = sum(ticks[i] for i in _BUSY)
        kernel = sum(ticks[i] for i in _KERNEL)
        return (
            busy / _TICKS_PER_S,
            kernel / _TICKS_PER_S,
            ticks[_STEAL] / _TICKS_PER_S,
            _context_switches(data),
            shared / _TICKS_PER_S,
            float(len(self._package)),
        )


def _context_switches(data: bytes) -> float:
    at = data.find(b"\nctxt ")
    return float("nan") if at < 0 else float(data[at + 6 : data.find(b"\n", at + 6)])


def open_time(tree: FileTree, cores: Cores) -> TimeProbe | None:
    """The probe, if the kernel keeps accounts."""
    try:
        return TimeProbe(HeldOpen(tree.path(_STAT)), cores, package_cores(tree, cores))
    except OSError:
        return None


_UNITS = {b"throttled_usec": 1e-6, b"throttled_time": 1e-9}
"""Versions 2 and 1 of control groups count in different units."""


class QuotaProbe:
    """Time during which the quota throttled threads."""

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


def open_quota(tree: FileTree) -> QuotaProbe | None:
    """The probe, if there is a quota."""
    source = quota_statistics(tree)
    if source is None:
        return None
    try:
        return QuotaProbe(HeldOpen(tree.path(source)), source)
    except OSError:
        return None


_KINDS = (("cpu", "some"), ("memory", "some"), ("memory", "full"), ("io", "some"), ("io", "full"))
"""`some`: some task waited; `full`: none could run, which can't happen for a machine's CPU."""


class PressureProbe:
    """Cumulative stall times, machine-wide."""

    def __init__(self, files: Sequence[tuple[str, HeldOpen]]) -> None:
        self._files = [(file, [kind.encode() for at, kind in _KINDS if at == resource]) for resource, file in files]
        quality = {
            "some": "exact counter, machine-wide: time in which at least one task waited",
            "full": "exact counter, machine-wide: time in which every task waited",
        }
        self.sensors: tuple[SensorInfo, ...] = tuple(
            SensorInfo(f"pressure_{at}_{kind}_s", "s", f"/proc/pressure/{at}", 0.01, quality[kind])
            for resource, _ in files
            for at, kind in _KINDS
            if at == resource
        )

    def read(self) -> Sequence[float]:
        """Seconds of stall since boot, by resource and kind."""
        values: list[float] = []
        for file, kinds in self._files:
            totals = _totals(file.read())
            values.extend(totals.get(kind, float("nan")) for kind in kinds)
        return values


def _totals(data: bytes) -> dict[bytes, float]:
    totals = {}
    for line in data.splitlines():
        kind, _, rest = line.partition(b" ")
        _, found, total = rest.partition(b"total=")
        if found:
            totals[kind] = int(total) * 1e-6
    return totals


def open_pressure(tree: FileTree) -> PressureProbe | None:
    """The probe, if the kernel keeps track (`psi=1`); otherwise the files exist but can't be read."""
    files = []
    for resource in ("cpu", "memory", "io"):
        try:
            file = HeldOpen(tree.path(f"/proc/pressure/{resource}"))
            file.read()
        except OSError:
            continue
        files.append((resource, file))
    return PressureProbe(files) if files else None


_MEMINFO = "/proc/meminfo"


class MemoryProbe:
    """Memory and swap of the machine."""

    def __init__(self, file: HeldOpen) -> None:
        self._file = file
        quality = "level, machine-wide; cores report small changes up to 1 s late"
        self.sensors: tuple[SensorInfo, ...] = (
            SensorInfo(*sensors.MEMORY_USED, _MEMINFO, 0.1, f"{quality}; total minus available"),
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


def open_memory(tree: FileTree) -> MemoryProbe | None:
    """The probe, if the kernel reports memory."""
    try:
        return MemoryProbe(HeldOpen(tree.path(_MEMINFO)))
    except OSError:
        return None


# --- hardware counters of the device's cores through `perf stat`, where permitted

log = logging.getLogger(__name__)

EVENTS = ("instructions", "cycles", "cache-references", "cache-misses")
_PERIOD_MS = 100


def why_no_perf(cores: Cores) -> str | None:
    """Why `perf` can't count on these cores; None if it can."""
    perf = shutil.which("perf")
    return "perf is not installed" if perf is None else _refusal(perf, cores)


@lru_cache(maxsize=8)
def _refusal(perf: str, cores: Cores) -> str | None:
    command = [*_command(perf, cores), "--", "true"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"perf can't be run ({error})"
    counted = counts_by_event(done.stderr)
    if done.returncode == 0 and any(value is not None for value in counted.values()):
        return None
    if counted:
        return "the processor exposes no counters here (usual in virtual machines)"
    return "perf may not count on whole cores"


def _command(perf: str, cores: Cores) -> list[str]:
    return [perf, "stat", "-x", ",", "-a", "-C", format_cores(cores), "-e", ",".join(EVENTS)]


def counts_by_event(text: str) -> dict[str, float | None]:
    """Sum counts by event in lines of `perf stat -x,`; None where the event is listed without a count."""
    counts: dict[str, float | None] = {}
    for line in text.splitlines():
        fields = line.split(",")
        for place, field in enumerate(fields[2:], start=2):
            # Plain, with a modifier (`cycles:u`), or by unit on a hybrid processor (`cpu_core/cycles/`).
            event = field.split("/")[1] if "/" in field else field.split(":")[0]
            if event in EVENTS:
                value = fields[place - 2]  # the unit in between is empty for these
                counts.setdefault(event, None)
                if value.isdecimal():
                    counts[event] = (counts[event] or 0.0) + float(value)
                break
    return counts


class PerfProbe:
    """Sums the output of a background `perf stat`, ten lines a second. Starts with the first reading."""

    def __init__(self, perf: str, cores: Cores) -> None:
        self._command = [*_command(perf, cores), "-I", str(_PERIOD_MS)]
        self._lines: ChildLines | None = None
        self._totals: dict[str, float | None] = dict.fromkeys(EVENTS)
        quality = "counter of the device's cores in steps of 100 ms; scaled where events were multiplexed"
        self.sensors: tuple[SensorInfo, ...] = tuple(
            SensorInfo(event.replace("-", "_"), "count", "perf stat", _PERIOD_MS / 1e3, quality) for event in EVENTS
        )

    def read(self) -> Sequence[float]:
        """Counts since the first reading; NaN where there is none yet. Raises OSError once perf has ended."""
        if self._lines is None:
            self._lines = ChildLines(self._command)
        whole = "\n".join(self._lines.fresh())
        for event, count in counts_by_event(whole).items():
            if count is not None:
                self._totals[event] = (self._totals[event] or 0.0) + count
        return tuple(float("nan") if (total := self._totals[event]) is None else total for event in EVENTS)


def open_perf(cores: Cores) -> PerfProbe | None:
    """The probe, if perf counts on these cores."""
    perf = shutil.which("perf")
    reason = why_no_perf(cores)
    if perf is None or reason is not None:
        log.debug("no hardware counters: %s", reason)
        return None
    return PerfProbe(perf, cores)
