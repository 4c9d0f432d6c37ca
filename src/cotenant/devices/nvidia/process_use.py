"""Which processes are on a GPU, in which way, and how much of its time and energy each used."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cotenant.devices.nvidia.library import DriverProblem, ask, call
from cotenant.devices.nvidia.nvml import GpuFacts, Instance, handle, process_function

_NO_INSTANCE = 0xFFFFFFFF
_NOT_FOUND = 6


@dataclass(frozen=True, slots=True)
class Occupant:
    """A process with a context on a GPU."""

    pid: int
    memory_bytes: int | None
    mps: bool
    """A client of MPS."""
    instance: Instance | None
    """The MIG instance it is in."""


def occupants(gpu: GpuFacts) -> list[Occupant]:
    """Every process on the GPU, those in MIG instances included.

    Raises:
        DriverProblem: The GPU or its driver is gone.
    """
    found: dict[int, Occupant] = {}
    numbers = dict(_numbered(gpu))
    for kind in ("Graphics", "Compute", "MPSCompute"):
        listed = process_function(gpu, kind)
        for each in (listed and ask(listed, handle(gpu), of=gpu.label)) or ():
            number = getattr(each, "gpuInstanceId", _NO_INSTANCE)
            found[int(each.pid)] = Occupant(
                int(each.pid), each.usedGpuMemory, kind == "MPSCompute", numbers.get(number)
            )
    return [found[pid] for pid in sorted(found)]


class ProcessUse:
    """Time in which any kernel of a process ran, by process, since the first reading.

    The driver averages over its own period (a sixth of a second to a second), and keeps some seconds of such values.
    It says how long kernels ran, not how many SMs they filled.
    """

    def __init__(self, gpu: GpuFacts) -> None:
        self._gpu = gpu
        self._seen_us = 0
        self._read_s: float | None = None
        self.busy_s: dict[int, float] = {}
        self.missing: str | None = None
        """Why the driver doesn't tell; None while it does."""
        self._counter_j: float | None = None
        self.joules: dict[int, float] | None = None
        """Energy by process: the GPU's, divided by the time of kernels; that of an idle GPU is left out. None without a
        counter."""

    def read(self) -> None:
        """Add what was used since the last reading. Raises DriverProblem if the GPU or its driver is gone."""
        now_s = time.monotonic()
        seconds = 0.0 if self._read_s is None else now_s - self._read_s
        self._read_s = now_s
        try:
            samples = call("nvmlDeviceGetProcessUtilization", handle(self._gpu), self._seen_us, of=self._gpu.label)
        except DriverProblem as problem:
            if problem.code == _NOT_FOUND:  # nothing ran
                self.missing = None
                self._divide_energy({})
                return
            if problem.trouble in {"lost", "no driver", "no library"}:
                raise
            self.missing = self._why(problem)
            return
        self.missing = None
        of_each: dict[int, list[int]] = {}
        for sample in samples:
            of_each.setdefault(int(sample.pid), []).append(min(int(sample.smUtil), 100))
            self._seen_us = max(self._seen_us, int(sample.timeStamp))
        # How many values the driver gives of each process differs between versions: their mean counts.
        ran_s = {pid: seconds * sum(shares) / len(shares) / 100 for pid, shares in of_each.items()}
        for pid, busy_s in ran_s.items():
            self.busy_s[pid] = self.busy_s.get(pid, 0.0) + busy_s
        self._divide_energy(ran_s)

    def _divide_energy(self, ran_s: Mapping[int, float]) -> None:
        total_mj = ask("nvmlDeviceGetTotalEnergyConsumption", handle(self._gpu), of=self._gpu.label)
        if total_mj is None:
            return
        before_j, self._counter_j = self._counter_j, total_mj / 1e3
        spent_j = 0.0 if before_j is None else max(0.0, self._counter_j - before_j)  # it fell: the driver was reloaded
        self.joules, together_s = self.joules or {}, sum(ran_s.values())
        for pid, busy_s in ran_s.items():
            share = busy_s / together_s if together_s > 0 else 0.0
            self.joules[pid] = self.joules.get(pid, 0.0) + spent_j * share

    def _why(self, problem: DriverProblem) -> str:
        if self._gpu.mig_mode:
            return "the driver doesn't tell how much processes in MIG instances use; DCGM's profiling metrics do"
        return f"the driver doesn't tell how much each process uses: {problem.message}"


def _numbered(gpu: GpuFacts) -> Iterator[tuple[int, Instance]]:
    by_uuid = {instance.uuid: instance for instance in gpu.instances}
    for index in range(ask("nvmlDeviceGetMaxMigDeviceCount", handle(gpu), of=gpu.label) or 0 if by_uuid else 0):
        part: Any = ask("nvmlDeviceGetMigDeviceHandleByIndex", handle(gpu), index, of=gpu.label)
        number = None if part is None else ask("nvmlDeviceGetGpuInstanceId", part, of=gpu.label)
        uuid = None if part is None else ask("nvmlDeviceGetUUID", part, of=gpu.label)
        if number is not None and str(uuid) in by_uuid:
            yield int(number), by_uuid[str(uuid)]
