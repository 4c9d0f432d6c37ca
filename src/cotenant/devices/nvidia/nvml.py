"""GPUs the driver sees, its facts about each, and the processes on them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cotenant.devices import jetson
from cotenant.devices.cpu.machine import memory_bytes
from cotenant.devices.nvidia.library import DriverProblem, ask, binding, call, forget, handle_of
from cotenant.devices.tree import FileTree
from cotenant.errors import DeviceError

__all__ = [
    "DriverProblem", "GpuFacts", "GpuProcess", "Instance", "PowerLimits", "cuda_version", "driver_version", "find",
    "forget", "free_memory_bytes", "gpus", "handle", "lost", "processes",
]  # fmt: skip

ARCHITECTURES: Mapping[int, str] = {
    2: "kepler", 3: "maxwell", 4: "pascal", 5: "volta", 6: "turing", 7: "ampere", 8: "ada", 9: "hopper",
    10: "blackwell", 13: "rubin",
}  # fmt: skip
_INTEGRATED = re.compile(r"\b(nvgpu|Orin|Thor|Xavier|Tegra)\b")


@dataclass(frozen=True, slots=True)
class PowerLimits:
    """Watts; ``now`` is the limit in force."""

    now: float
    default: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Instance:
    """A MIG instance: part of a GPU with its own memory and SMs."""

    uuid: str
    profile: str
    sms: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """The driver's facts about a GPU; None where it doesn't say."""

    index: int
    uuid: str
    name: str
    architecture: str
    """`volta`, `ampere`, ...; `unknown` if newer than these bindings."""
    driver: str
    memory_bytes: int
    compute_capability: tuple[int, int]
    sms: int | None
    power_limits: PowerLimits | None
    sm_clocks_mhz: tuple[int, ...]
    """All settable clocks, highest first; empty if the driver doesn't list them."""
    mem_clocks_mhz: tuple[int, ...]
    base_clock_mhz: int | None
    """The base clock; None if only the driver knows it (it can still be locked to)."""
    mig_mode: bool | None
    """None if it has no MIG."""
    instances: tuple[Instance, ...]
    ecc: bool | None
    persistence: bool | None
    pci: str

    @property
    def label(self) -> str:
        """Its name in messages."""
        return f"GPU {self.index} ({self.name})"


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that holds a context on a GPU."""

    pid: int
    memory_bytes: int | None
    name: str | None


def handle(gpu: GpuFacts) -> Any:
    """The handle NVML functions take for a GPU."""
    return handle_of(gpu.uuid, of=gpu.label)


def driver_version() -> str:
    """`550.54.15`."""
    return str(call("nvmlSystemGetDriverVersion"))


def cuda_version() -> str | None:
    """The newest CUDA version the driver supports: `12.4`."""
    number = ask("nvmlSystemGetCudaDriverVersion_v2")
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"


def gpus() -> tuple[GpuFacts, ...]:
    """Every GPU that responds, in the driver's order, except a Jetson's own; `lost` has the others.

    Raises:
        DriverProblem: There is no driver, or it can't be used.
    """
    return tuple(found for found in _scan() if isinstance(found, GpuFacts))


def lost() -> Mapping[int, DriverProblem]:
    """GPUs the driver lists that don't respond, by index."""
    return {index: found for index, found in enumerate(_scan()) if isinstance(found, DriverProblem)}


def find(index_or_uuid: int | str) -> GpuFacts:
    """Return a GPU by its index, its UUID, or a unique prefix of it.

    Raises:
        DriverProblem: There is no driver, or this GPU is lost.
        DeviceError: There is no such GPU.
    """
    every = _scan()
    wanted = str(index_or_uuid).strip()
    if wanted.isdecimal():
        if int(wanted) < len(every):
            return _present(every[int(wanted)])
    elif wanted:
        full = wanted if wanted.upper().startswith(("GPU-", "MIG-")) else f"GPU-{wanted}"
        same = [g for g in every if isinstance(g, GpuFacts) and g.uuid.lower().startswith(full.lower())]
        if len(same) == 1:
            return same[0]
    here = [f"{g.index} {g.uuid} ({g.name})" for g in every if isinstance(g, GpuFacts)]
    raise DeviceError(
        f"there is no GPU {wanted!r} here", hint=f"available: {'; '.join(here)}" if here else "the driver sees no GPU"
    )


def processes(gpu: GpuFacts) -> tuple[GpuProcess, ...]:
    """Processes with a context on a GPU, MPS clients included."""
    found: dict[int, GpuProcess] = {}
    for kind in ("Compute", "MPSCompute", "Graphics"):
        listed = process_function(gpu, kind)
        for each in (listed and ask(listed, handle(gpu), of=gpu.label)) or ():
            name = ask("nvmlSystemGetProcessName", each.pid)
            found[each.pid] = GpuProcess(int(each.pid), each.usedGpuMemory, None if name is None else str(name))
    return tuple(found[pid] for pid in sorted(found))


def process_function(gpu: GpuFacts, kind: str = "Compute") -> str | None:
    """The function that lists processes in this driver: version 3 from branch 510 on."""
    names = (f"nvmlDeviceGet{kind}RunningProcesses{version}" for version in ("_v3", "_v2"))
    return next((name for name in names if ask(name, handle(gpu), of=gpu.label) is not None), None)


def free_memory_bytes(gpu: GpuFacts) -> int:
    """Free memory now."""
    return _memory(handle(gpu), gpu.label)[1]


def _scan() -> Sequence[GpuFacts | DriverProblem]:
    found: list[GpuFacts | DriverProblem] = []
    driver = driver_version()
    for index in range(call("nvmlDeviceGetCount")):
        of = f"GPU {index}"
        try:
            device = call("nvmlDeviceGetHandleByIndex", index, of=of)
            if not _of_a_jetson(device, of):
                found.append(_facts(index, device, driver, of))
        except DriverProblem as problem:
            if problem.trouble not in {"lost", "no permission", "failed"}:
                raise
            found.append(problem)
    return found


def _of_a_jetson(device: Any, of: str) -> bool:
    """From JetPack 6 on, the library lists the board's own GPU (`Orin (nvgpu)`) with hardly any facts."""
    name = str(call("nvmlDeviceGetName", device, of=of))
    return _INTEGRATED.search(name) is not None and jetson.find() is not None


def _facts(index: int, device: Any, driver: str, of: str) -> GpuFacts:
    capability = call("nvmlDeviceGetCudaComputeCapability", device, of=of)
    cores = ask("nvmlDeviceGetNumGpuCores", device, of=of)
    mig = ask("nvmlDeviceGetMigMode", device, of=of)
    ecc = ask("nvmlDeviceGetEccMode", device, of=of)
    persistence = ask("nvmlDeviceGetPersistenceMode", device, of=of)
    mem_clocks = tuple(sorted(ask("nvmlDeviceGetSupportedMemoryClocks", device, of=of) or (), reverse=True))
    sm_clocks = ask("nvmlDeviceGetSupportedGraphicsClocks", device, mem_clocks[0], of=of) if mem_clocks else ()
    sm_clocks = tuple(sorted(sm_clocks or (), reverse=True))
    per_sm = _cores_per_sm(capability)
    mig_on = None if mig is None else bool(mig[0])
    return GpuFacts(
        index=index,
        uuid=str(call("nvmlDeviceGetUUID", device, of=of)),
        name=str(call("nvmlDeviceGetName", device, of=of)),
        architecture=_architecture(ask("nvmlDeviceGetArchitecture", device, of=of), capability),
        driver=driver,
        memory_bytes=_memory(device, of)[0],
        compute_capability=(int(capability[0]), int(capability[1])),
        sms=cores // per_sm if cores and per_sm else None,
        power_limits=_power_limits(device, of),
        sm_clocks_mhz=sm_clocks,
        mem_clocks_mhz=mem_clocks,
        base_clock_mhz=_base_clock(device, sm_clocks, of),
        mig_mode=mig_on,
        instances=_instances(device, of) if mig_on else (),
        ecc=None if ecc is None else bool(ecc[0]),
        persistence=None if persistence is None else bool(persistence),
        pci=str(call("nvmlDeviceGetPciInfo", device, of=of).busId),
    )


def _memory(device: Any, of: str) -> tuple[int, int]:
    """Total and free bytes; the machine's for a GPU that shares the CPU's memory (GB10) and reports none."""
    try:
        info = call("nvmlDeviceGetMemoryInfo", device, of=of)
    except DriverProblem as problem:
        if problem.trouble != "not supported":
            raise
        return memory_bytes(FileTree(), "MemTotal") or 0, memory_bytes(FileTree(), "MemAvailable") or 0
    return int(info.total), int(info.free)


def _architecture(reported: int | None, capability: Sequence[int]) -> str:
    """From the driver, or for drivers before 450 from the compute capability, which is unique to each architecture."""
    if reported is not None and reported in ARCHITECTURES:
        return ARCHITECTURES[reported]
    since = {(3, 0): 2, (5, 0): 3, (6, 0): 4, (7, 0): 5, (7, 5): 6, (8, 0): 7, (8, 9): 8, (9, 0): 9, (10, 0): 10}
    own = (int(capability[0]), int(capability[1]))
    known = [number for first, number in since.items() if first <= own]
    return ARCHITECTURES[known[-1]] if known and own < (13, 0) else "unknown"


def _power_limits(device: Any, of: str) -> PowerLimits | None:
    now = ask("nvmlDeviceGetEnforcedPowerLimit", device, of=of)
    default = ask("nvmlDeviceGetPowerManagementDefaultLimit", device, of=of)
    bounds = ask("nvmlDeviceGetPowerManagementLimitConstraints", device, of=of)
    if now is None or default is None or bounds is None:
        return None
    return PowerLimits(now / 1e3, default / 1e3, bounds[0] / 1e3, bounds[1] / 1e3)


def _base_clock(device: Any, sm_clocks: Sequence[int], of: str) -> int | None:
    """The default application clock, unless it is simply the highest (as on Hopper)."""
    clock = ask("nvmlDeviceGetDefaultApplicationsClock", device, binding("NVML_CLOCK_GRAPHICS"), of=of)
    return int(clock) if clock and sm_clocks and clock < sm_clocks[0] else None


def _instances(device: Any, of: str) -> tuple[Instance, ...]:
    found = []
    for index in range(ask("nvmlDeviceGetMaxMigDeviceCount", device, of=of) or 0):
        part = ask("nvmlDeviceGetMigDeviceHandleByIndex", device, index, of=of)
        if part is None:
            continue
        attributes = ask("nvmlDeviceGetAttributes_v2", part, of=of)
        found.append(
            Instance(
                uuid=str(call("nvmlDeviceGetUUID", part, of=of)),
                profile=str(call("nvmlDeviceGetName", part, of=of)).rpartition("MIG ")[2],
                sms=int(attributes.multiprocessorCount) if attributes else 0,
                memory_bytes=int(attributes.memorySizeMB) << 20 if attributes else 0,
            )
        )
    return tuple(found)


def _cores_per_sm(capability: tuple[int, int]) -> int | None:
    """CUDA cores per SM, from NVIDIA's programming guide; NVML only counts cores."""
    table = {
        (3, 5): 192, (3, 7): 192, (5, 0): 128, (5, 2): 128, (6, 0): 64, (6, 1): 128, (7, 0): 64, (7, 5): 64,
        (8, 0): 64, (8, 6): 128, (8, 7): 128, (8, 9): 128, (9, 0): 128, (10, 0): 128, (10, 3): 128, (11, 0): 128,
        (12, 0): 128, (12, 1): 128,
    }  # fmt: skip
    return table.get((int(capability[0]), int(capability[1])))


def _present(found: GpuFacts | DriverProblem) -> GpuFacts:
    if isinstance(found, DriverProblem):
        raise found
    return found
