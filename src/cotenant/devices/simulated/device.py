"""A simulated GPU as a device."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, cast

import numpy as np

from cotenant.devices.protocol import Finding, Probe, Roofline, Seat, SensorInfo, SharingMode
from cotenant.devices.simulated import sensors
from cotenant.devices.simulated.controls import Controls, absolute, read_controls
from cotenant.devices.simulated.fleet_names import Named, parse
from cotenant.devices.simulated.request import request_of
from cotenant.devices.simulated.sharing import SimulatedArrangement, arrange, sharing_modes
from cotenant.devices.simulated.solo_times import SoloTime
from cotenant.devices.single import SingleDevice
from cotenant.errors import DeviceError
from cotenant.prediction.batch_limit import Room
from cotenant.prediction.calibration.solo import UNFITTED, Solo, SoloFit, fit_solos, matched
from cotenant.prediction.gpu import DTYPES, GpuSpec
from cotenant.prediction.kernels.columns import Floats
from cotenant.prediction.kernels.cost import least_ns
from cotenant.prediction.kernels.parallel import parallel
from cotenant.prediction.kernels.quantised import quantised
from cotenant.prediction.kernels.request import RequestKernels
from cotenant.prediction.kernels.software import Execution
from cotenant.prediction.memory import need
from cotenant.prediction.power.dies import Die, draw
from cotenant.prediction.sharing.candidates import candidates
from cotenant.prediction.sharing.layout import Part
from cotenant.prediction.sharing.on_part import between_clocks, on_part, solo_of
from cotenant.prediction.sharing.trace import Trace
from cotenant.prediction.trust import classes
from cotenant.tenancy.nouns import ALONE, Sharing, Tenant
from cotenant.workloads.protocol import Dtype, WorkloadSpec

ACTIVITY_PERIOD_S = 0.1
_SLOWEST = 50
"""A measured time this many times the simulated one is in another unit, or of something else."""
ACTIVITIES = {
    "sm_active": "share of the SMs' room that kernels held",
    "tensor_active": "share of the tensor cores' throughput",
    "dram_active": "share of the DRAM bandwidth",
}


@dataclass(slots=True)
class SimulatedGpu(SingleDevice):
    """One simulated GPU: a typical one, or a member of a fleet."""

    name: str
    gpu: GpuSpec
    die: Die
    simulated: bool = True
    _requests: dict[str, RequestKernels] = field(default_factory=dict)
    _traces: dict[tuple[str, Part, Controls, float | None], Trace] = field(default_factory=dict)
    _fits: dict[tuple[str, tuple[SoloTime, ...]], tuple[RequestKernels, SoloFit]] = field(default_factory=dict)
    _of_fleet: dict[tuple[str, Part, Controls, float], Trace] | None = None
    """Requests on a typical die by clock, shared by all members of a fleet; None outside a fleet."""

    @property
    def meaning(self) -> str:
        """One-clause description."""
        return f"{self.gpu.title}, simulated: {self.gpu.sms} SMs, {self.gpu.memory_gib:.3g} GiB"

    def simulation(self, member: str | None = None) -> "SimulatedGpu":
        """Itself."""
        del member
        return self

    @property
    def default_dtype(self) -> Dtype:
        """Half precision where it has tensor cores for it."""
        return "float16" if self.gpu.tensor_tflops.float16 else "float32"

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
        return known + sensors.infos(self.gpu)

    def apply(self, settings: Mapping[str, Any]) -> AbstractContextManager[tuple[str, ...]]:
        """Check `clock_mhz`, `power_w`, `boost`, `host_us`, `device_ms` and `solo_ms`; all take effect."""
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

    @property
    def tenant_bytes(self) -> int:
        """A CUDA context."""
        return int(self.gpu.context_mib * 2**20)

    def room(self, memory_bytes: int | None = None) -> Room:
        """As for a real GPU, with this one's context size."""
        return replace(SingleDevice.room(self, memory_bytes), reserved_bytes=self.tenant_bytes)

    def memory_bytes(self, spec: WorkloadSpec) -> int:
        """A tenant's memory: context, weights, inputs, peak activations, and fragmentation."""
        needed = need(self.request(spec).properties, self.gpu)
        return self.tenant_bytes if needed is None else needed.total

    def request(self, spec: WorkloadSpec) -> RequestKernels:
        """The request's kernels, from a dry run of the workload; cached."""
        spec = self.spec(spec)
        key = spec.model_dump_json()
        if key not in self._requests:
            whole = request_of(spec.model_copy(update={"parallel": 1}))  # traced once, however it is split
            self._requests[key] = self._as_executed(replace(whole, spec=spec))
        return self._requests[key]

    def _as_executed(self, request: RequestKernels) -> RequestKernels:
        """With the weights' format, and this GPU's part of work spread over several."""
        spec = request.spec
        if spec.quantised is not None:
            request = quantised(request, spec.quantised, self.gpu)
        return parallel(request, spec.parallel) if spec.parallel > 1 else request

    def launch_ns(self, request: RequestKernels, controls: Controls) -> Floats:
        """Host time to launch each of a request's kernels."""
        if controls.host_us is not None:
            return np.asarray(request.kernels.launches * (controls.host_us * 1e3))
        return request.launch_ns(self.gpu.architecture)

    def calibrated(self, request: RequestKernels, controls: Controls) -> tuple[RequestKernels, SoloFit]:
        """The request calibrated by the measured solo times, and what they imply about host and device.

        Whether float32 products were rounded for tensor cores depends on the user's software; the times show it.

        Raises:
            DeviceError: A time is shorter than the GPU's peak rates allow.
        """
        spec = request.spec
        given = [one for one in controls.solo_ms if one.of_kind(spec)]
        if not given:
            return request, UNFITTED
        key = (spec.model_dump_json(), controls.solo_ms)
        if key not in self._fits:
            variants = [request.execution]
            if spec.dtype == "float32" and self.gpu.tensor_tflops.tf32 and not spec.tf32:
                variants.append(replace(request.execution, tf32="all"))
            fits = [self._fitted(spec, given, variant) for variant in variants]
            self._fits[key] = min(fits, key=lambda found: found[1].cost)
        return self._fits[key]

    def _fitted(
        self, spec: WorkloadSpec, given: Sequence[SoloTime], execution: Execution
    ) -> tuple[RequestKernels, SoloFit]:
        measured = [self._solo(one, request_of(one.spec(spec), execution)) for one in given]
        fit = fit_solos(measured)
        exact = [time for one, time in zip(given, measured, strict=True) if one.exactly(spec)]
        return request_of(spec, execution), matched(fit, exact[0]) if exact else fit

    def _solo(self, time: SoloTime, request: RequestKernels) -> Solo:
        kernels = request.kernels
        arithmetic_ns = least_ns(kernels, self.gpu)
        if time.ms * 1e6 < arithmetic_ns:
            raise DeviceError(
                f"{time.row}: {time.workload} in {time.ms:g} ms would be faster than the peak rate of "
                f"{self.gpu.title} allows ({arithmetic_ns / 1e6:.3g} ms)",
                hint="give milliseconds per request of the whole batch, measured on this GPU",
            )
        if time.ms * 1e6 > _SLOWEST * solo_of(self.gpu, request, 1.0).explained_ns(1.0, 1.0, 0.0):
            raise DeviceError(
                f"{time.row}: {time.workload} in {time.ms:g} ms is more than {_SLOWEST} times the simulated time",
                hint="give milliseconds per request, not seconds or microseconds, of this batch and number format",
            )
        return solo_of(self.gpu, request, time.ms * 1e6)

    def trace(
        self, request: RequestKernels, part: Part, controls: Controls, *, clock_mhz: float | None = None
    ) -> Trace:
        """A request on part of this GPU, ready for the engine; cached."""
        spec = request.spec.model_dump_json()
        measured_ms = dict(controls.device_ms).get(request.spec.name)

        request, fit = self.calibrated(request, controls)

        def typical(clock: float | None) -> Trace:
            return on_part(
                self.gpu,
                request,
                part,
                launch_ns=self.launch_ns(request, controls),
                fit=fit,
                measured_ms=measured_ms,
                clock_mhz=clock,
            )

        if self._of_fleet is not None and clock_mhz is not None:
            known = self._of_fleet

            def kept(clock: float) -> Trace:
                key = (spec, part, controls, clock)
                if key not in known:
                    known[key] = typical(clock)
                return known[key]

            trace = between_clocks(self.gpu, clock_mhz, kept)
            return request.with_host(trace.slowed(self.die.time))
        key = (spec, part, controls, clock_mhz)
        if key not in self._traces:
            self._traces[key] = request.with_host(typical(clock_mhz).slowed(self.die.time))
        return self._traces[key]

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


def open_simulated(name: str) -> SimulatedGpu:
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
    return SimulatedGpu(f"sim:{_written(name, named)}{member}", named.gpu, named.die())


def fleet_opener(name: str) -> tuple[str, tuple[str, ...], Callable[[str], SimulatedGpu]]:
    """A fleet's name, its members' names, and a function that opens one; members share the cached requests."""
    named = parse(name)
    assert named.count is not None, "only called with the name of a fleet"
    fleet = f"sim:{_written(name, named)}"
    requests: dict[str, RequestKernels] = {}
    traces: dict[tuple[str, Part, Controls, float], Trace] = {}

    def open_member(member: str) -> SimulatedGpu:
        die = draw(named.gpu, int(member.rpartition("#")[2]))
        return SimulatedGpu(member, named.gpu, die, _requests=requests, _of_fleet=traces)

    return f"{fleet}*{named.count}", tuple(f"{fleet}#{index}" for index in range(named.count)), open_member


def _written(name: str, named: Named) -> str:
    """The name of a catalogue GPU, or the path of a user's file."""
    path = name.strip().removeprefix("sim:").partition("#")[0].partition("*")[0]
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
