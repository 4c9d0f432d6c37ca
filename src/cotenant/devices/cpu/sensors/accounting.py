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
from cotenant.devices.protocol import FunctionProbe, Probe, SensorInfo
from cotenant.devices.tree import FileTree, HeldOpen

_STAT = "/proc/stat"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_USER, _NICE, _SYSTEM, _IDLE, _IOWAIT, _IRQ, _SOFTIRQ, _STEAL = range(8)
_BUSY = (_USER, _NICE, _SYSTEM, _IRQ, _SOFTIRQ)
_KERNEL = (_SYSTEM, _IRQ, _SOFTIRQ)

BUSY, STEAL = 0, 2
"""Positions of these times in a reading."""


def open_time(tree: FileTree, cores: Cores) -> Probe | None:
    """CPU time of some cores, from the kernel's accounting: busy, kernel and stolen seconds, those of the sockets."""
    file = tree.held(_STAT)
    if file is None:
        return None
    shared = package_cores(tree, cores) or cores
    mine, package = (frozenset(f"cpu{core}".encode() for core in some) for some in (cores, shared))
    step = 1 / _TICKS_PER_S
    in_ticks = f"counter over the device's cores, in steps of {step * 1e3:g} ms per core"
    infos = (
        SensorInfo("cpu_busy_s", "s", _STAT, step, f"{in_ticks}; all processes of the machine"),
        SensorInfo("cpu_kernel_s", "s", _STAT, step, f"{in_ticks}; the part of busy time spent in the kernel"),
        SensorInfo("cpu_steal_s", "s", _STAT, step, f"{in_ticks}; 0 where the hypervisor doesn't report it"),
        SensorInfo("context_switches", "count", _STAT, step, "exact counter, machine-wide"),
        SensorInfo("package_busy_s", "s", _STAT, step, "busy time of all cores that share the device's sockets"),
        SensorInfo("package_cores", "count", "/sys/devices/system/cpu", step, "number of these cores"),
    )

    def read() -> Sequence[float]:
        data = file.read()
        ticks = [0] * 8
        of_package = 0
        for line in data.split(b"\n"):
            if not line.startswith(b"cpu"):
                break
            fields = line.split()
            if fields[0] in package:
                of_package += sum(int(fields[1 + i]) for i in _BUSY)
            if fields[0] in mine:
                for i, field in enumerate(fields[1:9]):
                    ticks[i] += int(field)
        times = (sum(ticks[i] for i in _BUSY), sum(ticks[i] for i in _KERNEL), ticks[_STEAL])
        switches = _context_switches(data)
        return (*(time / _TICKS_PER_S for time in times), switches, of_package / _TICKS_PER_S, float(len(package)))

    return FunctionProbe(infos, read)


def _context_switches(data: bytes) -> float:
    at = data.find(b"\nctxt ")
    return float("nan") if at < 0 else float(data[at + 6 : data.find(b"\n", at + 6)])


_UNITS = {b"throttled_usec": 1e-6, b"throttled_time": 1e-9}
"""Versions 2 and 1 of control groups count in different units."""


def open_quota(tree: FileTree) -> Probe | None:
    """Thread-seconds spent waiting for the next period of the quota, if there is one."""
    source = quota_statistics(tree)
    file = None if source is None else tree.held(source)
    if source is None or file is None:
        return None
    quality = "counter over all threads of the container, moves once per quota period"

    def read() -> Sequence[float]:
        for line in file.read().split(b"\n"):
            name, _, value = line.partition(b" ")
            if name in _UNITS:
                return (int(value) * _UNITS[name],)
        return (float("nan"),)

    return FunctionProbe((SensorInfo("cpu_throttled_s", "s", source, 0.1, quality),), read)


_KINDS = (("cpu", "some"), ("memory", "some"), ("memory", "full"), ("io", "some"), ("io", "full"))
"""`some`: some task waited; `full`: none could run, which can't happen for a machine's CPU."""


_QUALITY = {
    "some": "exact counter, machine-wide: time in which at least one task waited",
    "full": "exact counter, machine-wide: time in which every task waited",
}


def open_pressure(tree: FileTree) -> Probe | None:
    """Seconds of stall since boot, machine-wide, by resource and kind, if the kernel keeps track (`psi=1`).

    Otherwise the files exist but can't be read.
    """
    files = {}
    for resource in ("cpu", "memory", "io"):
        try:
            file = HeldOpen(tree.path(f"/proc/pressure/{resource}"))
            file.read()
        except OSError:
            continue
        files[resource] = file
    kinds = [(at, kind) for at, kind in _KINDS if at in files]

    def read() -> Sequence[float]:
        totals = {resource: _totals(file.read()) for resource, file in files.items()}
        return [totals[at].get(kind.encode(), float("nan")) for at, kind in kinds]

    infos = tuple(
        SensorInfo(f"pressure_{at}_{kind}_s", "s", f"/proc/pressure/{at}", 0.01, _QUALITY[kind]) for at, kind in kinds
    )
    return FunctionProbe(infos, read) if files else None


def _totals(data: bytes) -> dict[bytes, float]:
    totals = {}
    for line in data.splitlines():
        kind, _, rest = line.partition(b" ")
        _, found, total = rest.partition(b"total=")
        if found:
            totals[kind] = int(total) * 1e-6
    return totals


_MEMINFO = "/proc/meminfo"


def open_memory(tree: FileTree) -> Probe | None:
    """Bytes of the machine's memory used, available, and swapped out."""
    file = tree.held(_MEMINFO)
    if file is None:
        return None
    quality = "level, machine-wide; cores report small changes up to 1 s late"
    infos = (
        SensorInfo(*sensors.MEMORY_USED, _MEMINFO, 0.1, f"{quality}; total minus available"),
        SensorInfo("memory_available_bytes", "B", _MEMINFO, 0.1, f"{quality}; the kernel's estimate"),
        SensorInfo("swap_used_bytes", "B", _MEMINFO, 0.1, quality),
    )

    def read() -> Sequence[float]:
        data = file.read()
        total, available, swap, free = (
            _bytes(data, name) for name in (b"MemTotal:", b"MemAvailable:", b"SwapTotal:", b"SwapFree:")
        )
        return total - available, available, swap - free

    return FunctionProbe(infos, read)


def _bytes(data: bytes, name: bytes) -> float:
    at = data.find(name)
    return float("nan") if at < 0 else float(data[at + len(name) :].split(None, 1)[0]) * 1024


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


def open_perf(cores: Cores) -> Probe | None:
    """Sums of the output of a background `perf stat`, ten lines a second, if perf counts on these cores.

    It starts with the first reading; values are NaN until it printed some.
    """
    perf = shutil.which("perf")
    reason = why_no_perf(cores)
    if perf is None or reason is not None:
        log.debug("no hardware counters: %s", reason)
        return None
    command = [*_command(perf, cores), "-I", str(_PERIOD_MS)]
    started: list[ChildLines] = []
    totals: dict[str, float | None] = dict.fromkeys(EVENTS)
    quality = "counter of the device's cores in steps of 100 ms; scaled where events were multiplexed"
    infos = tuple(
        SensorInfo(event.replace("-", "_"), "count", "perf stat", _PERIOD_MS / 1e3, quality) for event in EVENTS
    )

    def read() -> Sequence[float]:
        if not started:
            started.append(ChildLines(command))
        for event, count in counts_by_event("\n".join(started[0].fresh())).items():
            if count is not None:
                totals[event] = (totals[event] or 0.0) + count
        return tuple(float("nan") if (total := totals[event]) is None else total for event in EVENTS)

    return FunctionProbe(infos, read)
