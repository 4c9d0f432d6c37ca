"""Activity of the machine: our work on the device's core, other processes' work, and stolen time."""

import os
from pathlib import Path
from typing import NamedTuple

TICK = os.sysconf("SC_CLK_TCK")


class Reading(NamedTuple):
    """Seconds so far: our threads bound to the device's core, all our work, all work, stolen time."""

    device_s: float
    ours_s: float
    work_s: float
    steal_s: float


def read(core: int) -> Reading:
    """A reading now."""
    lines = Path("/proc/stat").read_text().splitlines()
    every = [int(field) / TICK for field in lines[0].split()[1:9]]
    one = next(line for line in lines if line.startswith(f"cpu{core} "))
    device_s, ours_s = _family_s(core)
    return Reading(device_s, ours_s, sum(every[place] for place in (0, 1, 2, 5, 6)), int(one.split()[8]) / TICK)


def spent_s(pid: int) -> float:
    """CPU time of a process's living threads: to the nanosecond, where `/proc/PID/stat` counts ticks of 10 ms."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((one / "schedstat").read_text().split()[0]) for one in threads) / 1e9


def _family_s(core: int) -> tuple[float, float]:
    """CPU time of threads of our living descendants: those bound to the core, and all."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _fields(entry)):
            parents[int(entry.name)] = int(fields[1])
    family = {os.getpid()}
    grown = True
    while grown:
        found = {pid for pid, parent in parents.items() if parent in family} - family
        family |= found
        grown = bool(found)
    bound = every = 0.0
    for pid in family:
        try:
            threads = [int(one.name) for one in Path(f"/proc/{pid}/task").iterdir()]
        except OSError:
            continue
        for thread in threads:
            fields = _fields(Path(f"/proc/{pid}/task/{thread}"))
            if fields:
                spent = (int(fields[11]) + int(fields[12])) / TICK
                every += spent
                bound += spent if _bound_to(thread, core) else 0.0
    return bound, every


def _bound_to(thread: int, core: int) -> bool:
    try:
        return os.sched_getaffinity(thread) == {core}
    except OSError:
        return False


def _fields(place: Path) -> list[str]:
    try:
        return (place / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
