"""Reads a GPU through its driver: which processes are on it, how they share it, and how long their kernels run."""

import os
from collections.abc import Mapping, Sequence

from cotenant.analyse.neighbours.watched import GPU_S, Grant
from cotenant.devices.nvidia.nvml import DriverProblem, GpuFacts, find
from cotenant.devices.nvidia.process_use import Occupant, ProcessUse, occupants
from cotenant.errors import DeviceError
from cotenant.measure.watch.processes import ProcessReader
from cotenant.measure.watch.track import Track

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
        if any(one.mps for one in self._occupants.values()):
            return "mps"
        return "processes" if len(self._occupants) > 1 else "alone"

    def look(self) -> None:
        """Look at the driver's list of processes."""
        self._occupants = {one.pid: one for one in occupants(self.gpu)}

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
            mine = [self._occupants[one] for one in members if one in self._occupants]
            if not mine:
                continue
            busy_s = sum(self._use.busy_s.get(one.pid, 0.0) for one in mine)
            memory = sum(one.memory_bytes or 0 for one in mine)
            for track in tracks.get(pid, ()):
                if self._use.missing is None:
                    track.add(t_s, {GPU_S: busy_s}, "NVML process utilisation")
                track.facts["gpu_memory_bytes"] = memory
                track.facts["sharing"] = "mps" if any(one.mps for one in mine) else self.sharing
                self._grants(track, mine, memory)

    def granted_by_mps(self, process: ProcessReader) -> str | None:
        """Note the share of SMs in a client's environment; a sentence if that can't be read."""
        if not any(self._occupants[one].mps for one in (process.pid,) if one in self._occupants):
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
        others = [one for one in self._occupants if one not in watched]
        hidden = [one for one in others if not _exists(one)]
        if hidden:
            said.append(
                f"The driver lists processes on {self.gpu.label} that don't exist here ({_numbers(hidden)}): in a "
                "container, start it with --pid=host to see them."
            )
        shown = [one for one in others if one not in hidden]
        if shown:
            said.append(f"Not watched, but also on {self.gpu.label}: {_numbers(shown)}.")
        return said

    def _grants(self, track: Track, mine: Sequence[Occupant], memory: int) -> None:
        for instance in {one.instance.uuid: one.instance for one in mine if one.instance is not None}.values():
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
