"""Current load: other processes, stolen time, pressure, the timer."""

import os
import time
from dataclasses import dataclass

import psutil

from cotenant.devices.cpu.cores import Cores
from cotenant.devices.cpu.sensors.accounting import STEAL, open_time
from cotenant.devices.protocol import Finding
from cotenant.devices.tree import FileTree

_MOMENT_S = 0.3
_NOTEWORTHY = 0.02
"""Share of a core; less is the background of any system."""
_DISTURBING = 0.10
_WAKE_TRIES = 20
_WAKE_S = 0.001


@dataclass(frozen=True, slots=True)
class Burner:
    """Another process and the CPU time it uses, in cores."""

    name: str
    pid: int
    cores: float


def over_a_moment(tree: FileTree, cores: Cores) -> list[Finding | None]:
    """Values that must be observed over an interval, all observed at once."""
    probe = open_time(tree, cores)
    stolen = probe.read()[STEAL] if probe else 0.0
    times = _cpu_times()
    start = time.monotonic()
    time.sleep(_MOMENT_S)
    elapsed = time.monotonic() - start
    return [
        foreign_load(_burners(times, _cpu_times(), elapsed)),
        steal((probe.read()[STEAL] - stolen) / (elapsed * len(cores))) if probe else None,
        pressure(tree),
    ]


def foreign_load(burners: list[Burner]) -> Finding:
    """Other processes using the CPU."""
    total = sum(burner.cores for burner in burners)
    if total < _NOTEWORTHY:
        return Finding("other processes", "ok", "idle")
    top = ", ".join(f"{b.name} (pid {b.pid}) {b.cores * 100:.0f} %" for b in burners[:3])
    text = f"other processes use {total * 100:.0f} % of a core now: {top}"
    if total >= _DISTURBING:
        return Finding("other processes", "warning", text, "stop them, or expect wider intervals")
    return Finding("other processes", "note", text)


def steal(share: float) -> Finding:
    """Time the hypervisor gave to other virtual machines."""
    text = f"{share * 100:.1f} % of the cores' time went to other virtual machines"
    if share < 0.01:
        return Finding("steal time", "ok", text)
    fix = "use a dedicated instance, or measure at another time"
    return Finding("steal time", "warning" if share >= 0.03 else "note", text, fix)


def pressure(tree: FileTree) -> Finding | None:
    """Check whether tasks waited for a resource during the last ten seconds."""
    waiting = {}
    for resource in ("cpu", "memory", "io"):
        fields = (tree.text(f"/proc/pressure/{resource}") or "").split()
        for field in fields[:2]:
            if field.startswith("avg10="):
                waiting[resource] = float(field.removeprefix("avg10="))
    if not waiting:
        fix = "boot with psi=1"
        return Finding("pressure", "note", "the kernel doesn't record waits for CPU, memory and I/O", fix)
    text = ", ".join(f"{resource} {share:g} %" for resource, share in waiting.items()) + " of the last 10 s"
    return Finding("pressure", "warning" if max(waiting.values()) >= 10 else "ok", text)


def load_average(tree: FileTree, cores: Cores) -> Finding | None:
    """Runnable tasks, averaged over the last minute."""
    fields = (tree.text("/proc/loadavg") or "").split()
    if not fields:
        return None
    load = float(fields[0])
    text = f"{load:g} over the last minute, on {len(cores)} core{'s'[: len(cores) > 1]}"
    if load > 0.5 * len(cores):
        return Finding("load average", "warning", text, "wait until the machine is idle")
    return Finding("load average", "ok", text)


def sleep_overshoot() -> Finding:
    """How late sleeps end, which limits how exactly a schedule can be kept."""
    late = []
    for _ in range(_WAKE_TRIES):
        start = time.perf_counter_ns()
        time.sleep(_WAKE_S)
        late.append((time.perf_counter_ns() - start) / 1e3 - _WAKE_S * 1e6)
    late.sort()
    median, worst = late[len(late) // 2], late[-1]
    resolution = time.get_clock_info("perf_counter").resolution * 1e9
    text = f"sleeps end {median:.0f} µs late (worst of {_WAKE_TRIES}: {worst:.0f} µs); clock steps: {resolution:g} ns"
    return Finding("timer", "warning" if median > 500 else "ok", text)


def _cpu_times() -> dict[tuple[int, float], tuple[str, float]]:
    """CPU time of every process except ours and our ancestors, by pid and start time."""
    ours = psutil.Process(os.getpid())
    near = {ours.pid, *(p.pid for p in ours.parents()), *(p.pid for p in ours.children(recursive=True))}
    times = {}
    for process in psutil.process_iter(["pid", "name", "create_time", "cpu_times"]):
        info = process.info
        if info["pid"] in near or info["cpu_times"] is None:
            continue
        used = info["cpu_times"].user + info["cpu_times"].system
        times[info["pid"], info["create_time"]] = (info["name"] or "?", used)
    return times


def _burners(
    before: dict[tuple[int, float], tuple[str, float]],
    after: dict[tuple[int, float], tuple[str, float]],
    elapsed_s: float,
) -> list[Burner]:
    burners = [
        Burner(name, key[0], (used - before[key][1]) / elapsed_s)
        for key, (name, used) in after.items()
        if key in before and used > before[key][1]
    ]
    return sorted(burners, key=lambda burner: -burner.cores)
