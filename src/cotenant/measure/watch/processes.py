"""Reads processes from procfs and control groups: CPU time, memory, and what they were granted. Needs no root."""

import os
import re
from pathlib import Path

from cotenant.analyse.neighbours.watched import CPU_S, Grant
from cotenant.devices.cpu.cgroup import group_of, memory_limit_bytes, quota_cores
from cotenant.devices.tree import FileTree
from cotenant.errors import WatchError
from cotenant.measure.watch.track import Track

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
FAMILY_EVERY = 10
"""Readings between two looks for new children."""
_CONTAINER = re.compile(r"([0-9a-f]{12})[0-9a-f]{52}")
_POD = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})")


class ProcessReader:
    """A process and its children; their CPU time counts for all tenants that the process serves."""

    def __init__(self, pid: int, tracks: list[Track], tree: FileTree | None = None) -> None:
        self.pid = pid
        self.tracks = tracks
        self._tree = tree or FileTree()
        self._family: list[int] = [pid]
        self._readings = 0
        self._before: dict[int, float] = {}
        self._total_s = 0.0
        self._first: tuple[float, float] | None = None
        self.notes: list[str] = []
        self.unseen: list[str] = []
        self._ended = False
        if self._stat(pid) is None:
            raise WatchError(f"there is no process {pid}")
        self._known_from_the_start()

    def read(self, t_s: float) -> None:
        """One reading. A process that ended is noted; the rest goes on."""
        if self._readings % FAMILY_EVERY == 0:
            self._family = family(self.pid, self._tree)
        self._readings += 1
        stats = {pid: stat for pid in self._family if (stat := self._stat(pid)) is not None}
        if self.pid not in stats:
            if not self._ended:
                self.notes.append(f"Process {self.pid} has ended.")
            self._ended = True
            return
        for pid, (cpu_s, _) in stats.items():
            # Of a child that is seen for the first time, what it used before was its own start.
            self._total_s += max(0.0, cpu_s - self._before.get(pid, cpu_s))
            self._before[pid] = cpu_s
        self._first = self._first or (t_s, self._total_s)
        memory = sum(bytes_ for _, bytes_ in stats.values())
        for track in self.tracks:
            track.add(t_s, {CPU_S: self._total_s}, "/proc/PID/stat")
            track.facts["memory_bytes"] = memory
            self._grants(track, t_s, memory)

    def _known_from_the_start(self) -> None:
        """User, name and container: they don't change."""
        facts: dict[str, object] = {"pid": self.pid, "name": self._tree.text(f"/proc/{self.pid}/comm") or "?"}
        owner = self._owner()
        if owner is not None and owner != os.geteuid():
            facts["user"] = owner
        group = group_of(self._tree, str(self.pid))
        if container := _CONTAINER.search(group):
            facts["container"] = container[1]
        if pod := _POD.search(group):
            facts["pod"] = pod[1].replace("_", "-")
        for track in self.tracks:
            track.facts.update(facts)

    def environment(self) -> dict[str, str] | None:
        """Variables it was started with; None if they belong to another user."""
        try:
            raw = self._tree.path(f"/proc/{self.pid}/environ").read_bytes()
        except OSError:
            return None
        pairs = (part.partition(b"=") for part in raw.split(b"\0") if part)
        return {name.decode(errors="replace"): value.decode(errors="replace") for name, _, value in pairs}

    def _grants(self, track: Track, t_s: float, memory: int) -> None:
        process = str(self.pid)
        assert self._first is not None
        seconds = t_s - self._first[0]
        cores = (self._total_s - self._first[1]) / seconds if seconds > 0 else None
        if group_of(self._tree, process) != group_of(self._tree):  # else it is shared with this program and others
            if (quota := quota_cores(self._tree, process)) is not None:
                track.grant(Grant("cores", "control group", quota, cores, "cores"))
            if (limit := memory_limit_bytes(self._tree, process)) is not None:
                track.grant(Grant("memory", "control group", limit, memory, "B"))
        try:
            allowed = len(os.sched_getaffinity(self.pid))
        except OSError:
            return
        if allowed < (os.cpu_count() or allowed):
            track.grant(Grant("cores", "affinity", allowed, cores, "cores"))

    def _stat(self, pid: int) -> tuple[float, int] | None:
        """CPU seconds, and resident bytes."""
        text = self._tree.text(f"/proc/{pid}/stat")
        if text is None:
            return None
        fields = text.rpartition(")")[2].split()
        if len(fields) < 22 or fields[0] in {"Z", "X"}:
            return None
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S, int(fields[21]) * _PAGE_BYTES

    def _owner(self) -> int | None:
        try:
            return self._tree.path(f"/proc/{self.pid}").stat().st_uid
        except OSError:
            return None


def family(pid: int, tree: FileTree | None = None) -> list[int]:
    """A process and all that descend from it, from the kernel's lists of children."""
    tree = tree or FileTree()
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        tasks: list[Path] = []
        try:
            tasks = list(tree.path(f"/proc/{one}/task").iterdir())
        except OSError:
            continue
        for task in tasks:
            try:
                waiting += [int(child) for child in (task / "children").read_text().split()]
            except (OSError, ValueError):
                continue
    return found
