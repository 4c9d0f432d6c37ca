"""Reads processes from procfs and control groups: CPU time, memory, and what they were granted. Needs no root."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cotenant.analyse.neighbours import CPU_S, ENERGY_J, GPU_S, Grant
from cotenant.devices.cpu import group_of, memory_limit_bytes, quota_cores
from cotenant.devices.nvidia import DriverProblem, GpuFacts, Occupant, ProcessUse, find, occupants
from cotenant.devices.tree import FileTree
from cotenant.errors import DeviceError, WatchError
from cotenant.measure.watch.track import Track

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
FAMILY_EVERY = 10
"""Readings between two looks for new children."""
LOOK_AGAIN_EVERY = 5
"""Readings between two looks for the successor of a process that ended."""
_CONTAINER = re.compile(r"([0-9a-f]{12})[0-9a-f]{52}")
_POD = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})")


class ProcessReader:
    """A process and its children; their CPU time counts for all tenants that the process serves."""

    def __init__(
        self, pid: int, tracks: list[Track], tree: FileTree | None = None, again: Callable[[], int | None] | None = None
    ) -> None:
        self.pid = pid
        self.tracks = tracks
        self._again = again
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
        """One reading. A process that ended is noted, and what serves in its place is read; the rest goes on."""
        if self._ended and self._readings % LOOK_AGAIN_EVERY == 0 and self._again is not None:
            self._follow(self._again())
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

    def _follow(self, pid: int | None) -> None:
        """Its server was started again, as another process."""
        if pid is not None and pid != self.pid:
            self.notes[-1] = f"Process {self.pid} ended, and process {pid} serves in its place."
            self.pid, self._family, self._ended = pid, family(pid, self._tree), False
            self._known_from_the_start()

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
        parent = waiting.pop()
        found.append(parent)
        tasks: list[Path] = []
        try:
            tasks = list(tree.path(f"/proc/{parent}/task").iterdir())
        except OSError:
            continue
        for task in tasks:
            try:
                waiting += [int(child) for child in (task / "children").read_text().split()]
            except (OSError, ValueError):
                continue
    return found


# --- reads a GPU through its driver: which processes are on it, how they share it, and how long their kernels run

OCCUPANTS_EVERY = 5
"""Readings between two looks at the driver's list of processes."""


def open_gpu(device: str) -> "GpuReader | None":
    """The GPU with this name (`cuda:0`, `cuda:GPU-...`); None for a CPU.

    Raises:
        DeviceError: There is no such GPU, or it can't be watched.
    """
    family, _, part = device.partition(":")
    if family == "cpu":
        return None
    if family != "cuda":
        raise DeviceError(f"{device} can't be watched", hint="watch cpu, or an NVIDIA GPU such as cuda:0")
    return GpuReader(find(part or "0"))


class GpuReader:
    """One GPU."""

    def __init__(self, gpu: GpuFacts) -> None:
        self.gpu = gpu
        self._use = ProcessUse(gpu)
        self._readings = 0
        self._occupants: dict[int, Occupant] = {}
        self._gone = False
        self.notes: list[str] = []
        self.look()

    @property
    def pids(self) -> tuple[int, ...]:
        """Processes on it, as the driver numbers them."""
        return tuple(self._occupants)

    @property
    def sharing(self) -> str:
        """How its processes share it: `mig`, `mps`, `processes`, or `alone`."""
        if self.gpu.mig_mode:
            return "mig"
        if any(occupant.mps for occupant in self._occupants.values()):
            return "mps"
        return "processes" if len(self._occupants) > 1 else "alone"

    def look(self) -> None:
        """Look at the driver's list of processes."""
        self._occupants = {occupant.pid: occupant for occupant in occupants(self.gpu)}

    def read(self, t_s: float, families: Mapping[int, Sequence[int]], tracks: Mapping[int, Sequence[Track]]) -> None:
        """One reading.

        Args:
            t_s: Now.
            families: By watched process: itself and its children, which may be what the driver lists.
            tracks: By watched process: the tenants it serves.
        """
        if self._gone:
            return
        try:
            if self._readings % OCCUPANTS_EVERY == 0:
                self.look()
            self._readings += 1
            self._use.read()
        except DriverProblem as problem:
            self._gone = True
            self.notes.append(f"{problem.message[:1].upper()}{problem.message[1:]}.")
            return
        for pid, members in families.items():
            mine = [self._occupants[member] for member in members if member in self._occupants]
            if not mine:
                continue
            busy_s = sum(self._use.busy_s.get(occupant.pid, 0.0) for occupant in mine)
            memory = sum(occupant.memory_bytes or 0 for occupant in mine)
            for track in tracks.get(pid, ()):
                if self._use.missing is None:
                    track.add(t_s, {GPU_S: busy_s}, "NVML process utilisation")
                    if self._use.joules is not None:
                        joules = sum(self._use.joules.get(occupant.pid, 0.0) for occupant in mine)
                        track.add(t_s, {ENERGY_J: joules}, "NVML energy, divided by time of kernels")
                track.facts["gpu_memory_bytes"] = memory
                track.facts["sharing"] = "mps" if any(occupant.mps for occupant in mine) else self.sharing
                self._grants(track, mine, memory)

    def granted_by_mps(self, process: ProcessReader) -> str | None:
        """Note the share of SMs in a client's environment; a sentence if that can't be read."""
        if not any(self._occupants[pid].mps for pid in family(process.pid) if pid in self._occupants):
            return None
        variables = process.environment()
        if variables is None:
            return (
                f"The MPS share of process {process.pid} is in the environment of another user's process; "
                "run this as that user to see it."
            )
        share = variables.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "")
        if share.replace(".", "", 1).isdigit():
            grant = Grant("SMs", "MPS", float(share), None, "% of the SMs", "a profiler (`cotenant profile`)")
            for track in process.tracks:
                track.grant(grant)
        return None

    def unseen(self, watched: Sequence[int]) -> list[str]:
        """What the driver doesn't show, and what would."""
        said = []
        if self._use.missing is not None:
            said.append(f"{self._use.missing[:1].upper()}{self._use.missing[1:]}.")
        elif self._occupants:
            said.append(
                f"How many SMs each process fills on {self.gpu.label} can't be seen, only how long its kernels run; "
                "a profiler (`cotenant profile`) shows it."
            )
        others = [pid for pid in self._occupants if pid not in watched]
        hidden = [pid for pid in others if not _exists(pid)]
        if hidden:
            said.append(
                f"The driver lists processes on {self.gpu.label} that don't exist here ({_numbers(hidden)}): in a "
                "container, start it with --pid=host to see them."
            )
        shown = [pid for pid in others if pid not in hidden]
        if shown:
            said.append(f"Not watched, but also on {self.gpu.label}: {_numbers(shown)}.")
        return said

    def _grants(self, track: Track, mine: Sequence[Occupant], memory: int) -> None:
        for instance in {
            occupant.instance.uuid: occupant.instance for occupant in mine if occupant.instance is not None
        }.values():
            by = f"MIG {instance.profile}"
            track.grant(Grant("SMs", by, instance.sms, None, "SMs", "DCGM's profiling metrics"))
            track.grant(Grant("memory", by, instance.memory_bytes, memory, "B"))


def _exists(pid: int) -> bool:
    """Whether a process exists here."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _numbers(pids: Sequence[int]) -> str:
    more = f" and {len(pids) - 5} more" if len(pids) > 5 else ""
    return f"process{'es' if len(pids) > 1 else ''} {', '.join(map(str, pids[:5]))}{more}"
