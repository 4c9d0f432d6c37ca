"""Resource use of a server's processes, which counts for the tenant whose requests they serve."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

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
