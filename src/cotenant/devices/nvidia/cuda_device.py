"""An NVIDIA GPU (or a MIG instance of it) as a device."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from cotenant.devices.cpu.cores import usable_cores
from cotenant.devices.nvidia import nvml
from cotenant.devices.nvidia.nvml import GpuFacts, Instance, processes
from cotenant.devices.nvidia.seat import GpuSeat, GpuSeatOptions
from cotenant.devices.nvidia.sharing import Fixtures, GpuPlace, arrange, sharing_modes
from cotenant.devices.nvidia.sharing.layout import in_core_blocks
from cotenant.devices.nvidia.tools import torch_build
from cotenant.devices.nvidia.torch_side import ON_CPU, SEAM, on_cpu
from cotenant.devices.protocol import Arrangement, Finding, Probe, Roofline, SeatReport, SharingMode
from cotenant.devices.single import SingleDevice
from cotenant.devices.tree import FileTree
from cotenant.errors import DeviceError, SharingUnavailable
from cotenant.prediction.contention import mps_caps
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.sharing import Sharing
from cotenant.tenancy.ways import ALONE
from cotenant.workloads.protocol import Dtype

if TYPE_CHECKING:
    from cotenant.devices.nvidia.dcgm import DcgmActivity
    from cotenant.devices.nvidia.gpu_sensors import SourceChoice


FLUSH = "flush_l2"
"""The only setting that acts in the tenants' processes instead of on the GPU."""
TENSOR_CORES: Mapping[int, tuple[str, ...]] = {7: ("float16",), 8: ("tf32", "float16", "bfloat16", "int8")}
"""Number formats with tensor cores, by compute capability; newer GPUs as 8 plus fp8."""


class CudaDevice(SingleDevice):
    """One GPU. The driver is accessed through NVML; torch is used only in tenants' processes."""

    simulated = False

    def __init__(self, name: str, gpu: GpuFacts, instance: Instance | None = None) -> None:
        self.name = name
        self.gpu = gpu
        self.instance = instance
        self._flush_l2 = False
        self._fixtures: Fixtures = {}
        self._probes: Sequence[Probe] | None = None
        self._activity: DcgmActivity | None = None

    @property
    def meaning(self) -> str:
        """One-clause description."""
        part = f"instance {self.instance.profile} of " if self.instance else ""
        what = self.instance or self.gpu
        sms = f", {what.sms} SMs" if what.sms else ""
        return f"{part}{self.gpu.name}{sms}, {what.memory_bytes / 2**30:.0f} GiB"

    @property
    def default_dtype(self) -> Dtype:
        """Half precision where tensor cores support it; bfloat16 if they do."""
        major = self.gpu.compute_capability[0]
        return "bfloat16" if major >= 8 else "float16" if major == 7 else "float32"

    @property
    def host_cores(self) -> int:
        """The machine's cores: tenants launch from there."""
        return len(usable_cores(FileTree()))

    def lock_keys(self) -> tuple[str, ...]:
        """The GPU's UUID: instances share its power and sensors."""
        return (self.gpu.uuid,)

    def describe(self) -> Mapping[str, Any]:
        """Facts from the driver, torch's build, and the source of each metric."""
        from cotenant.devices.nvidia import gpu_sensors

        build = torch_build()
        facts = {key: value for key, value in asdict(self.gpu).items() if not key.endswith("clocks_mhz")}
        clocks = self.gpu.sm_clocks_mhz
        worth = gpu_sensors.power_counter(self.gpu)
        return {
            **facts,
            "model": self.gpu.name,
            "sm_clock_range_mhz": [clocks[-1], clocks[0]] if clocks else None,
            "cuda": nvml.cuda_version(),
            "torch": f"{build.version}, built for {build.built_for}" if build else None,
            "torch_side": f"cpu: {SEAM} is set, so nothing was computed on the GPU" if on_cpu() else "the GPU",
            "default_dtype": self.default_dtype,
            "tensor_cores_for": self._tensor_cores(),
            "instance": asdict(self.instance) if self.instance else None,
            "solo_baseline": self._baseline(),
            "sources": [choice.sentence for choice in self.ladder()],
            "power_sensor": asdict(worth) if worth else None,
            "cores": self.host_cores,
        }

    @property
    def stand_in(self) -> bool:
        """Set by an environment variable, to test everything but the GPU."""
        return on_cpu()

    @property
    def nsys_index(self) -> int | None:
        """The driver's index; for a MIG instance its parent's."""
        return None if self.stand_in else self.gpu.index

    @property
    def reports_priorities(self) -> bool:
        """A stream's priority is read back from torch, an MPS client's from the daemon."""
        return True

    def sharings(self) -> tuple[SharingMode, ...]:
        """Every sharing mode, and what unavailable ones need."""
        return sharing_modes(self.place())

    def arrange(self, sharing: Sharing, tenants: Sequence[Tenant]) -> Arrangement:
        """Processes, environment and fixtures."""
        place = self.place()
        if sharing.mode == ALONE and self.gpu.mig_mode and not place.visible.startswith("MIG-"):
            raise SharingUnavailable(
                f"MIG is on but {self.gpu.label} has no instance, so nothing can run on it",
                hint=f"sudo nvidia-smi -i {self.gpu.index} -mig 0, or create an instance: "
                f"sudo nvidia-smi mig -i {self.gpu.index} -cgi PROFILE -C",
            )
        found = arrange(place, self._fixtures, sharing, tenants)
        found.servers = partial(servers_elsewhere, self.gpu, self.name)
        in_core_blocks(found, tenants, FileTree())
        return found

    def layouts(self, mode: str, tenants: Sequence[Tenant]) -> tuple[Sharing, ...]:
        """A few MPS caps. MIG is split as given: every change of its instances takes seconds and the administrator."""
        return mps_caps(tenants) if mode == "mps" else ()

    def seat(self, options: Mapping[str, Any]) -> GpuSeat:
        """A tenant's seat, from the options in its plan."""
        return GpuSeat(cast("GpuSeatOptions", dict(options)))

    def probes(self) -> Sequence[Probe]:
        """Working probes for power, energy, clocks, temperature, throttling, activity and memory. Opened once."""
        if self._probes is None:
            from cotenant.devices.nvidia import gpu_sensors

            more = self.activity().probe
            extra = () if more is None else (more,)
            names = {info.name for probe in extra for info in probe.sensors}
            own = gpu_sensors.probes(self.gpu)
            # One source per metric: the driver is not asked for what DCGM provides.
            self._probes = (*(probe for probe in own if not {info.name for info in probe.sensors} <= names), *extra)
        return self._probes

    def activity(self) -> "DcgmActivity":
        """DCGM's probe for this GPU, or why it is missing; started once."""
        if self._activity is None:
            from cotenant.devices.nvidia.dcgm import ask_dcgm

            self._activity = ask_dcgm(self.gpu)
        return self._activity

    def apply(self, settings: Mapping[str, Any]) -> AbstractContextManager[Sequence[str]]:
        """Set clocks, limits and modes; restore them on exit. `flush_l2: true` clears the cache before each request."""
        from cotenant.devices.nvidia.controls import require_permission

        known = self.absolute(settings)
        require_permission(self.gpu, {key: value for key, value in known.items() if key != FLUSH})
        return self._applied({**settings})

    def absolute(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """The settings with percentages resolved, checked before anything starts. Raises DeviceError."""
        from cotenant.devices.nvidia.settings import absolute

        flush = settings.get(FLUSH, False)
        if not isinstance(flush, bool):
            raise DeviceError(f"{FLUSH} is true or false, not {flush!r}", hint=f"write `{FLUSH}: true`")
        known = absolute(self.gpu, {key: value for key, value in settings.items() if key != FLUSH})
        return {**known, **({FLUSH: flush} if FLUSH in settings else {})}

    @contextmanager
    def _applied(self, settings: dict[str, Any]) -> Iterator[Sequence[str]]:
        from cotenant.devices.nvidia.controls import applied

        self._flush_l2 = bool(settings.pop(FLUSH, False))
        try:
            with applied(self.gpu, settings) as broken:
                yield broken
        finally:
            self._flush_l2 = False

    def free_memory_bytes(self) -> int:
        """Memory free now; for an instance, all of it."""
        place = self.place()
        if place.visible.startswith("MIG-"):
            return next((instance.memory_bytes for instance in self.gpu.instances if instance.uuid == place.visible), 0)
        return nvml.free_memory_bytes(self.gpu)

    def foreign_processes(self, own: Collection[int]) -> tuple[str, ...]:
        """Processes with a context on the GPU, except the driver's own."""
        return others_on(self.gpu, self.name, own)

    def roofline(self, *, refresh: bool = False) -> Roofline:
        """Peak FLOP/s by dtype and memory bandwidth, measured once and cached."""
        from cotenant.devices.nvidia.peak_rates import roofline

        place = self.place()
        return roofline(place.visible, sms=place.sms or 0, driver=self.gpu.driver, refresh=refresh)

    def remembered_roofline(self) -> Roofline | None:
        """Cached peak rates; None if not measured yet."""
        from cotenant.devices.nvidia.peak_rates import remembered

        return remembered(self.place().visible, driver=self.gpu.driver)

    def checkup(self) -> tuple[Finding, ...]:
        """Findings on whether this GPU is ready to be measured."""
        from cotenant.devices.nvidia.checkup import checkup

        return checkup(self)

    def place(self) -> GpuPlace:
        """The GPU as sharing modes see it."""
        baseline = self.instance or max(
            self.gpu.instances, key=lambda instance: (instance.sms, instance.memory_bytes), default=None
        )
        return GpuPlace(
            gpu=self.gpu,
            dtype=self.default_dtype,
            threads=self.host_cores,
            visible=baseline.uuid if baseline else self.gpu.uuid,
            sms=baseline.sms if baseline else self.gpu.sms,
            flush_l2=self._flush_l2,
            torch_on_cpu=on_cpu(),
            instance=self.instance is not None,
        )

    def _baseline(self) -> str:
        if self.instance is not None:
            return f"alone on the instance {self.instance.profile}"
        if self.gpu.mig_mode and self.gpu.instances:
            largest = max(self.gpu.instances, key=lambda instance: (instance.sms, instance.memory_bytes))
            return f"alone on the largest MIG instance, {largest.profile}, not on the whole GPU"
        return "alone on the whole GPU"

    def _tensor_cores(self) -> list[str]:
        major = self.gpu.compute_capability[0]
        newest = (*TENSOR_CORES[8], "float8")
        return list(() if major < 7 else TENSOR_CORES.get(major, newest))

    def ladder(self) -> "Sequence[SourceChoice]":
        """For each metric, its source here and why no better source is available."""
        from cotenant.devices.nvidia import gpu_sensors

        return gpu_sensors.ladder(self.gpu, no_dcgm=self.activity().why_not)


def open_cuda(part: str) -> CudaDevice:
    """Return the GPU or MIG instance with this index or UUID.

    Args:
        part: The part after `cuda:`; in records it may end in the suffix of the test seam.

    Raises:
        DeviceError: No such GPU, or no driver.
    """
    identity = part.removesuffix(ON_CPU).strip()
    mark = ON_CPU if on_cpu() else ""
    if part.endswith(ON_CPU) and not mark:
        raise DeviceError(f"cuda:{part} was recorded with torch on the CPU", hint=f"set {SEAM}=cpu to do so again")
    if identity.upper().startswith("MIG-"):
        parents = {instance.uuid: (gpu, instance) for gpu in nvml.gpus() for instance in gpu.instances}
        same = [uuid for uuid in parents if uuid.lower().startswith(identity.lower())]
        if len(same) != 1:
            raise DeviceError(
                f"there is no MIG instance {identity!r} here", hint=f"available: {', '.join(parents) or 'none'}"
            )
        gpu, instance = parents[same[0]]
        return CudaDevice(f"cuda:{instance.uuid}{mark}", gpu, instance)
    gpu = nvml.find(identity or "0")
    by_number = not identity or identity.isdecimal()
    return CudaDevice(f"cuda:{gpu.index if by_number else gpu.uuid}{mark}", gpu)


_SERVANTS = ("nvidia-cuda-mps", "nvidia-persistenced")
"""Processes of the driver itself."""


def others_on(gpu: GpuFacts, name: str, own: Collection[int], proc: Path = Path("/proc")) -> tuple[str, ...]:
    """One sentence for each foreign process on the GPU.

    Args:
        gpu: Where to look.
        name: The device's, for messages.
        own: The study's processes.
        proc: Where processes are listed. In a container the driver may report pids of the host: a pid
            unknown here counts only if the study's own pids are listed as well.
    """
    try:
        found = processes(gpu)
    except DeviceError:  # a lost GPU is reported elsewhere
        return ()
    same_numbers = any(process.pid in own for process in found)
    return tuple(
        f"process {process.pid} ({process.name or 'name unknown'}) is also on {name}"
        for process in found
        if process.pid not in own
        and (same_numbers or (proc / str(process.pid)).exists())
        and not Path(process.name or "").name.startswith(_SERVANTS)
    )


def servers_elsewhere(gpu: GpuFacts, name: str, reports: Sequence[SeatReport]) -> list[str]:
    """One sentence for each tenant whose server has no context on the GPU it should run on.

    Unlike a tenant's own process, a server can't report where it runs. In a container the driver may report pids
    of the host: unless any is known, nothing is concluded.
    """
    servers = {report.tenant: set(report.observed.get("server_pids", ())) for report in reports}
    servers = {tenant: pids for tenant, pids in servers.items() if pids}
    if not servers:
        return []
    try:
        there = {process.pid for process in processes(gpu)}
    except DeviceError:  # a lost GPU is reported elsewhere
        return []
    known = set().union(*servers.values()) | {report.pid for report in reports}
    if there and not there & known:
        return []
    return [
        f"the server of {tenant} is not on {name}: the driver lists none of its processes there"
        for tenant, pids in servers.items()
        if not pids & there
    ]
