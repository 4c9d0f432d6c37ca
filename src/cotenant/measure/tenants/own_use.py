"""CPU time used by the study itself: the rest of the machine's busy time belongs to others."""

import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from cotenant.devices.protocol import SensorInfo
from cotenant.measure.gather import Timing
from cotenant.measure.sampler import Samples

OWN_CPU = "own_cpu_s"
RUNNER_CPU = "runner_cpu_s"


class OwnUseProbe:
    """CPU seconds of the runner and all tenant processes (with their finished children), and of the runner alone."""

    def __init__(self, pids: Sequence[int], proc: Path = Path("/proc")) -> None:
        self.sensors: tuple[SensorInfo, ...] = (
            SensorInfo(OWN_CPU, "s", "/proc/PID/stat", 0.1, "counter, in steps of a clock tick (usually 10 ms)"),
            SensorInfo(RUNNER_CPU, "s", "process clock", 0.1, "exact counter: runner and sampler without tenants"),
        )
        self._paths = [proc / str(pid) / "stat" for pid in (os.getpid(), *pids)]
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")

    def read(self) -> Sequence[float]:
        """The sum is NaN once a process is gone, since it would jump."""
        ticks = 0
        for path in self._paths:
            try:
                fields = path.read_text().rpartition(")")[2].split()
            except OSError:
                return float("nan"), time.process_time()
            ticks += sum(int(field) for field in fields[11:15])
        return ticks * self._tick_s, time.process_time()


def share_of_window(samples: Samples, sensor: str, timing: Timing, cores: int) -> float | None:
    """Growth of a counter of CPU seconds over the window, as a share of the cores' time; group members add up."""
    grown = growths(samples, sensor, timing)
    if not grown or not cores:
        return None
    return sum(grown) / ((timing.window_end_ns - timing.window_start_ns) / 1e9 * cores)


def growths(samples: Samples, sensor: str, timing: Timing) -> list[float]:
    """Growth of a counter over the window, on each device that has it."""
    grown = []
    for t_ns, values in samples.by_device(sensor).values():
        if t_ns.size >= 2 and t_ns[-1] >= timing.window_end_ns:
            start, end = np.interp([timing.window_start_ns, timing.window_end_ns], t_ns, values)
            grown.append(float(end - start))
    return grown


# --- resource use of a server's processes, which counts for the tenant whose requests they serve

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


def tree(roots: Iterable[int]) -> tuple[int, ...]:
    """These processes and all their living descendants."""
    import psutil

    found: dict[int, None] = {}
    for pid in roots:
        with suppress(psutil.Error):
            found[pid] = None
            found |= dict.fromkeys(child.pid for child in psutil.Process(pid).children(recursive=True))
    return tuple(found)


def cpu_time_ns(pids: Iterable[int]) -> int:
    """CPU time so far, with that of finished children; in clock ticks."""
    ticks = 0
    for pid in pids:
        with suppress(OSError):
            ticks += sum(int(number) for number in _stat(pid)[11:15])
    return ticks * _TICK_NS


def peak_memory_bytes(pids: Iterable[int]) -> int:
    """Sum of their peak resident sets: shared pages count more than once."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            for line in (_PROC / str(pid) / "status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    total += int(line.split()[1]) * 1024
    return total


def cores(pids: Iterable[int]) -> set[int]:
    """Cores any of their threads may run on."""
    found: set[int] = set()
    for pid in pids:
        with suppress(OSError):
            for thread in (_PROC / str(pid) / "task").iterdir():
                with suppress(ProcessLookupError):
                    found |= os.sched_getaffinity(int(thread.name))
    return found


def _stat(pid: int) -> list[str]:
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
