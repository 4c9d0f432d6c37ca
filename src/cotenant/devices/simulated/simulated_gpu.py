"""A simulated GPU as a device."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NoReturn, cast

from cotenant.devices.protocol import (
    Finding,
    Fixture,
    HostPlan,
    Probe,
    Roofline,
    Seat,
    SeatReport,
    SensorInfo,
    SharingMode,
)
from cotenant.devices.simulated import controls
from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.devices.simulated.controls import absolute, read_controls
from cotenant.devices.simulated.solo_times import parse_solo_times
from cotenant.devices.single import SingleDevice, with_dtype
from cotenant.errors import DeviceError, WorkloadError
from cotenant.prediction.batch_limit import Room
from cotenant.prediction.contention import Layout, Part, Trace, candidates, lay_out, missing, nearest
from cotenant.prediction.gpu import DTYPES, GpuSpec
from cotenant.prediction.kernels import (
    EXECUTIONS,
    Execution,
    Fusion,
    Kernels,
    RequestKernels,
    Tf32,
    generation,
    inference,
    kernels_of,
    staged,
    training,
)
from cotenant.prediction.power import TYPICAL, Die, draw_die
from cotenant.prediction.simulated_gpu import Controls, SimulatedGpu
from cotenant.prediction.trust import classes
from cotenant.tenancy.device_names import DeviceName
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.sharing import Sharing
from cotenant.tenancy.ways import ALONE
from cotenant.workloads import find
from cotenant.workloads.models import ModelWorkload
from cotenant.workloads.protocol import Attention, Dtype, StagedWorkload, WorkloadSpec

# --- sharing modes of a simulated GPU

MEANINGS = {
    "processes": "one process per tenant; the driver time-slices the whole GPU",
    "mps": "one process per tenant; kernels run concurrently, with shares of the SMs if given",
    "streams": "one process with a stream per tenant; kernels run concurrently, launched by one thread",
    "green": "one process; each tenant has dedicated SMs, DRAM and L2 are shared",
    "mig": "each tenant has an instance with its own SMs, memory and bandwidth",
}


@dataclass(slots=True)
class SimulatedArrangement:
    """A mix laid out on a simulated GPU. Nothing is started, so nothing needs cleanup or verification."""

    layout: Layout
    hosts: tuple[HostPlan, ...] = ()
    fixture: Fixture | None = None

    def verify(self, reports: Sequence[SeatReport]) -> tuple[str, ...]:
        """A simulated GPU is always shared as laid out."""
        del reports
        return ()


def sharing_modes(gpu: GpuSpec) -> tuple[SharingMode, ...]:
    """Every sharing mode of this GPU, except `alone`, the baseline."""
    return tuple(
        SharingMode(mode, meaning, available=lacks is None, missing=lacks, instead=nearest(gpu) if lacks else None)
        for mode, meaning in MEANINGS.items()
        for lacks in (missing(gpu, mode),)
    )


def arrange(
    gpu: GpuSpec, sharing: Sharing, tenants: Sequence[Tenant], needs: Mapping[str, int]
) -> SimulatedArrangement:
    """Lay a mix out. Raises SharingUnavailable."""
    return SimulatedArrangement(lay_out(gpu, sharing, tenants, needs))


# --- names of fleets and their members: `v100-sxm2-16gb*392` is 392 dies, `v100-sxm2-16gb#17` is number 17

MOST = 100_000
_NAME = re.compile(r"(?P<gpu>[^*#]+)(?:(?P<sign>[*#])(?P<number>\d+))?")


@dataclass(frozen=True, slots=True)
class Named:
    """A parsed name."""

    gpu: GpuSpec
    count: int | None = None
    """Size of a fleet; None for a single GPU."""
    index: int | None = None
    """Number within a fleet; None for a typical die."""

    def die(self, *, seed: int = 0) -> Die:
        """The die of a single GPU."""
        return TYPICAL if self.index is None else draw_die(self.gpu, self.index, seed=seed)

    def members(self) -> tuple[str, ...]:
        """Names of a fleet's members; for a single GPU, its own."""
        if self.count is None:
            return (self.gpu.name if self.index is None else f"{self.gpu.name}#{self.index}",)
        return tuple(f"{self.gpu.name}#{index}" for index in range(self.count))


def parse(name: str) -> Named:
    """Parse the name of a GPU, fleet or member; a leading `sim:` is ignored.

    Raises:
        DeviceError: No such GPU, or it is not followed by a number of GPUs.
    """
    wanted = DeviceName(name.strip()).model
    match = _NAME.fullmatch(wanted)
    if match is None:
        raise DeviceError(
            f"{wanted!r} is not a simulated GPU",
            hint="a fleet is written v100-sxm2-16gb*392, one of its members v100-sxm2-16gb#17",
        )
    gpu = find_gpu(match["gpu"])
    if match["sign"] is None:
        return Named(gpu)
    number = int(match["number"])
    if match["sign"] == "#":
        return Named(gpu, index=number)
    if not 1 <= number <= MOST:
        raise DeviceError(f"a fleet of {number} GPUs can't be simulated", hint=f"choose 1 to {MOST}")
    return Named(gpu, count=number)


ACTIVITY_PERIOD_S = 0.1
_SLOWEST = 50
"""A measured time this many times the simulated time is in another unit, or of something else."""
ACTIVITIES = {
    "sm_active": "share of the SMs' room that kernels held",
    "tensor_active": "share of the tensor cores' throughput",
    "dram_active": "share of the DRAM bandwidth",
}


@dataclass(slots=True)
class SimulatedGpuDevice(SimulatedGpu, SingleDevice):
    """A simulated GPU behind the interface of devices."""

    simulated: bool = True

    @property
    def meaning(self) -> str:
        """One-clause description."""
        return f"{self.gpu.title}, simulated: {self.gpu.sms} SMs, {self.gpu.memory_gib:.3g} GiB"

    def simulation(self, member: str | None = None) -> "SimulatedGpuDevice":
        """Itself."""
        del member
        return self

    @property
    def host_cores(self) -> int:
        """None: there are no tenant processes."""
        return 0

    def lock_keys(self) -> tuple[str, ...]:
        """Nothing physical: any number of runs can use it at once."""
        return ()

    def describe(self) -> Mapping[str, Any]:
        """The data it is simulated from."""
        return {"simulated": True, "die": _plain(self.die), **self.gpu.model_dump(mode="json")}

    def sharings(self) -> tuple[SharingMode, ...]:
        """`processes`, `mps`, `streams`, `green`, `mig`."""
        return sharing_modes(self.gpu)

    def arrange(self, sharing: Sharing, tenants: Sequence[Tenant]) -> SimulatedArrangement:
        """Parts of the GPU for each tenant."""
        needs = {tenant.name: self.memory_bytes(tenant.workload) for tenant in tenants} if sharing.mode == "mig" else {}
        return arrange(self.gpu, sharing, tenants, needs)

    def layouts(self, mode: str, tenants: Sequence[Tenant]) -> tuple[Sharing, ...]:
        """Every MIG split that fits, and a grid of caps for MPS."""
        needs = {tenant.name: self.memory_bytes(tenant.workload) for tenant in tenants} if mode == "mig" else {}
        return candidates(self.gpu, mode, tenants, needs)

    def seat(self, options: Mapping[str, Any]) -> Seat:
        """Not available: no process runs on it."""
        del options
        self._refuse()

    def probes(self) -> Sequence[Probe]:
        """The sensors in its samples; none can be read outside a trial."""
        return (cast("Probe", _Shown(self.sensor_infos())),)

    def sensor_infos(self) -> tuple[SensorInfo, ...]:
        """Activity from the simulation, then power, clock, temperature and energy as sensors would show them."""
        source = f"simulated {self.gpu.name}"
        known = tuple(
            SensorInfo(name, "share", source, ACTIVITY_PERIOD_S, f"simulated; {meaning}, mean over the period")
            for name, meaning in ACTIVITIES.items()
        )
        return known + controls.infos(self.gpu)

    def apply(self, settings: Mapping[str, Any]) -> AbstractContextManager[tuple[str, ...]]:
        """Check the settings; all take effect."""
        self.controls(settings)
        return _taken()

    def controls(self, settings: Mapping[str, Any]) -> Controls:
        """The parsed and checked settings. Raises DeviceError."""
        return read_controls(self.gpu, settings)

    def absolute(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """The settings with shares of a maximum resolved."""
        return absolute(self.gpu, settings)

    def free_memory_bytes(self) -> int:
        """All of its memory: it has no other users."""
        return self.gpu.memory_bytes

    def room(self, memory_bytes: int | None = None) -> Room:
        """As for a real GPU, with this GPU's context size."""
        return replace(SingleDevice.room(self, memory_bytes), reserved_bytes=self.tenant_bytes)

    def roofline(self, *, refresh: bool = False) -> Roofline:
        """Peak rates from the data sheet."""
        del refresh
        peaks = {dtype: max(self.gpu.vector_rate(dtype), self.gpu.tensor_rate(dtype) or 0.0) for dtype in DTYPES}
        return Roofline(peaks, self.gpu.bandwidth_gb_s * 1e9, self.gpu.sms, measured_utc="data sheet")

    def remembered_roofline(self) -> Roofline | None:
        """The same rates: nothing is measured."""
        return self.roofline()

    def checkup(self) -> tuple[Finding, ...]:
        """Always ready; the findings say how far to trust it."""
        family = self.gpu.architecture
        known = [
            f"{kind}, {quantity}: {error.sentence}"
            for (kind, quantity), error in sorted(classes().items())
            if kind.family == family and quantity == ("time" if kind.sharing == ALONE else "slowdown")
        ] or [f"results on {family} GPUs were not compared with measurements"]
        return (
            Finding("simulation", "note", f"{self.gpu.title} is simulated; nothing on it is measured"),
            *(Finding("trust", "note", sentence) for sentence in known),
        )

    def _refuse(self) -> NoReturn:
        raise DeviceError(f"{self.name} is simulated: no process can run on it")


def open_simulated(name: str) -> SimulatedGpuDevice:
    """Return the simulated GPU with this name: `sim:a100-sxm4-40gb`, `sim:v100-sxm2-16gb#17`, `sim:/path/to/gpu.yaml`.

    Raises:
        DeviceError: No such GPU, or the name stands for a fleet.
    """
    named = parse(name)
    if named.count is not None:
        raise DeviceError(
            f"{name.strip()} is a fleet of {named.count}, but a single GPU is needed here",
            hint=f"name one of them: sim:{named.gpu.name}#0 to sim:{named.gpu.name}#{named.count - 1}",
        )
    member = "" if named.index is None else f"#{named.index}"
    device = f"sim:{_written(name, named)}{member}"
    return SimulatedGpuDevice(device, named.gpu, named.die(), CATALOGUE, measured=parse_solo_times(named.gpu.solo_ms))


def fleet_opener(name: str) -> tuple[str, tuple[str, ...], Callable[[str], SimulatedGpuDevice]]:
    """A fleet's name, its members' names, and a function that opens a member; members share the cached requests."""
    named = parse(name)
    assert named.count is not None, "only called with the name of a fleet"
    fleet = f"sim:{_written(name, named)}"
    requests: dict[str, RequestKernels] = {}
    traces: dict[tuple[str, Part, Controls, float], Trace] = {}

    def open_member(member: str) -> SimulatedGpuDevice:
        die = draw_die(named.gpu, int(member.rpartition("#")[2]))
        return SimulatedGpuDevice(member, named.gpu, die, CATALOGUE, _requests=requests, _of_fleet=traces)

    return f"{fleet}*{named.count}", tuple(f"{fleet}#{index}" for index in range(named.count)), open_member


def _written(name: str, named: Named) -> str:
    """The name of a catalogue GPU, or the path of a user's file."""
    path = DeviceName(name.strip()).model.partition("#")[0].partition("*")[0]
    return path if path.lower().endswith((".yaml", ".yml")) else named.gpu.name


@dataclass(frozen=True, slots=True)
class _Shown:
    sensors: tuple[SensorInfo, ...]

    def read(self) -> Sequence[float]:
        """NaN: nothing runs on it."""
        return [float("nan")] * len(self.sensors)


@contextmanager
def _taken() -> Iterator[tuple[str, ...]]:
    yield ()


def _plain(die: Die) -> dict[str, float]:
    return {name: float(getattr(die, name)) for name in ("dynamic", "leakage", "resistance", "inlet_c", "time")}


# --- requests of a workload on a simulated GPU, from a dry run of the real model that is cached on disk

_KEPT = 256


class Catalogue:
    """Describes workloads of the catalogue, model files and the user's own."""

    def spec(self, spec: WorkloadSpec, usual: Dtype) -> WorkloadSpec:
        """The spec with a number format: its own, else its workload's, else the default."""
        return with_dtype(spec, usual)

    def request(self, spec: WorkloadSpec, execution: Execution | None = None) -> RequestKernels:
        """The kernels of a request, from a dry run."""
        return request_of(spec, execution)

    def family(self, name: str) -> str:
        """Family of a workload."""
        return find(name).family

    def dimensions(self, name: str) -> Mapping[str, Any] | None:
        """The configuration of a language model; None if it is something else."""
        workload = find(name)
        return workload.entry.config if isinstance(workload, ModelWorkload) and workload.family == "decoder" else None


CATALOGUE = Catalogue()


def request_of(spec: WorkloadSpec, execution: Execution | None = None) -> RequestKernels:
    """The request of this spec, whose dtype must be set; executed by its software's defaults unless overridden.

    Raises:
        WorkloadError: Its kernels can't be determined before it runs.
    """
    workload = find(spec.name)
    execution = execution or execution_of(spec)
    if isinstance(workload, StagedWorkload):
        return staged(spec, workload.properties(spec), execution, workload.stage_costs(spec))
    kernels, properties = kernels_for(spec, execution), workload.properties(spec)
    if spec.train:
        return training(spec, properties, execution, kernels)
    if spec.mode != "generate":
        return inference(spec, properties, execution, kernels)
    from cotenant.workloads.protocol import DEFAULT_TOKENS

    prompt = kernels_for(spec.model_copy(update={"mode": "prefill", "tokens": None}), execution)
    return generation(spec, properties, execution, kernels, prompt=prompt, tokens=spec.tokens or DEFAULT_TOKENS)


def execution_of(spec: WorkloadSpec) -> Execution:
    """How its software executes it."""
    usual = EXECUTIONS[spec.software or "eager"]
    rounded = replace(usual, tf32="all") if spec.tf32 else usual
    return rounded if spec.attention == "fused" else replace(rounded, attention=spec.attention)


def kernels_for(spec: WorkloadSpec, execution: Execution | None = None) -> Kernels:
    """The kernels of a request of a workload.

    Args:
        spec: The workload, with its dtype.
        execution: Execution mode; None for the default of the spec's software.

    Raises:
        WorkloadError: Its operators can't be traced before it runs.
    """
    executed = execution or execution_of(spec)
    return _kernels_for(spec.model_dump_json(), executed.fusion, executed.tf32, executed.attention)


@lru_cache(maxsize=_KEPT)
def _kernels_for(spec_json: str, fusion: Fusion, tf32: Tf32, attention: Attention) -> Kernels:
    spec = WorkloadSpec.model_validate_json(spec_json)
    operators = find(spec.name).properties(spec).operators
    if not operators:
        raise WorkloadError(
            f"{spec.name} can't be simulated: its operators can't be traced before it runs",
            hint="simulate a model of the catalogue (`cotenant workloads`) or a model file",
        )
    return kernels_of(operators, fusion=fusion, tf32=tf32, attention=attention)
