"""A simulated GPU, pure: requests as kernels, their times on a part of it, and the memory they need.

Workloads are described by whoever opens it, since a description may need a dry run of the real model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from cotenant.errors import DeviceError
from cotenant.prediction.batch_limit import need
from cotenant.prediction.calibration.engine_fit import EngineFit
from cotenant.prediction.calibration.solo import UNFITTED, SoloFit, SoloPoint, SoloTime, fit_solos, matched
from cotenant.prediction.contention.layout import Part, whole_of
from cotenant.prediction.contention.trace import Pace, Trace, trace_of
from cotenant.prediction.engines.dynamic_batching import BatchingTenant
from cotenant.prediction.engines.engine_profile import ENGINES, EngineProfile
from cotenant.prediction.engines.on_gpu import Engines
from cotenant.prediction.engines.step import StepShape
from cotenant.prediction.engines.tails import EngineQueue
from cotenant.prediction.engines.tenant import EngineLoad, EngineTenant
from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.kernels.columns import Floats
from cotenant.prediction.kernels.cost import least_ns, solo_costs
from cotenant.prediction.kernels.efficiency import FITTED, ORDERED
from cotenant.prediction.kernels.request import RequestKernels, parallel, quantised
from cotenant.prediction.kernels.software import Execution
from cotenant.prediction.kernels.traces import calibrated
from cotenant.prediction.power.dies import Die
from cotenant.prediction.power.settling import FREE, Limits
from cotenant.workloads.protocol import Dtype, WorkloadSpec, in_batches

_SLOWEST = 50
"""A measured time this many times the simulated time is in another unit, or of something else."""


@dataclass(frozen=True, slots=True)
class Controls:
    """The settings of a simulated GPU."""

    limits: Limits = FREE
    host_us: float | None = None
    """Host time per launch; None for the default of a tenant's software."""
    device_ms: tuple[tuple[str, float], ...] = ()
    """Measured kernel times by workload, alone on the whole GPU, that calibrate its trace."""
    solo_ms: tuple[SoloTime, ...] = ()
    """Measured times of complete requests alone, that calibrate host and device."""
    host_cores: float | None = None
    """Cores of the host that the tenants share; None for enough of them."""


UNCONTROLLED = Controls()


class Describe(Protocol):
    """Descriptions of workloads."""

    def spec(self, spec: WorkloadSpec, usual: Dtype) -> WorkloadSpec:
        """The spec with a number format: its own, else its workload's, else the default."""
        ...

    def request(self, spec: WorkloadSpec, execution: Execution | None = None) -> RequestKernels:
        """The kernels of a request; executed by its software's defaults unless overridden."""
        ...

    def family(self, name: str) -> str:
        """Family of a workload: encoder, decoder, vision, ..."""
        ...

    def dimensions(self, name: str) -> Mapping[str, Any] | None:
        """The configuration of a language model; None if it is something else."""
        ...


@dataclass(slots=True)
class SimulatedGpu:
    """A simulated GPU: typical of its model, or a member of a fleet."""

    name: str
    gpu: GpuSpec
    die: Die
    describing: Describe
    measured: tuple[SoloTime, ...] = ()
    """Measured on such a GPU: they calibrate it where its controls don't."""
    _requests: dict[str, RequestKernels] = field(default_factory=dict)
    _traces: dict[tuple[str, Part, Controls, float | None], Trace] = field(default_factory=dict)
    _fits: dict[tuple[str, tuple[SoloTime, ...]], tuple[RequestKernels, SoloFit]] = field(default_factory=dict)
    _engine_fits: dict[tuple[object, ...], EngineFit] = field(default_factory=dict)
    _known_engines: Engines | None = None
    _of_fleet: dict[tuple[str, Part, Controls, float], Trace] | None = None
    """Requests on a typical die by clock, shared by all members of a fleet; None outside a fleet."""

    @property
    def default_dtype(self) -> Dtype:
        """Half precision where it has tensor cores for it."""
        return "float16" if self.gpu.tensor_tflops.float16 else "float32"

    def spec(self, spec: WorkloadSpec) -> WorkloadSpec:
        """The spec with a number format: its own, else its workload's, else this GPU's."""
        return spec if spec.dtype is not None else self.describing.spec(spec, self.default_dtype)

    def locked_clock(self, part: Part, mhz: float | None) -> float | None:
        """The clock that costs take on a part if the GPU's is locked; None without a lock."""
        return None if mhz is None else self.gpu.clocks_mhz.locked(mhz, part.loaded)

    def family(self, spec: WorkloadSpec) -> str:
        """Family of its workload: encoder, decoder, vision, ..."""
        return self.describing.family(spec.name)

    def served(self, spec: WorkloadSpec) -> bool:
        """Whether an engine serves it: many requests at once, in steps."""
        return self._engines.serve(self.spec(spec))

    def engine(
        self,
        spec: WorkloadSpec,
        part: Part,
        load: EngineLoad,
        *,
        clock_mhz: float | None,
        controls: Controls = UNCONTROLLED,
        host: float = 1.0,
    ) -> EngineTenant:
        """The engine that serves this on a part of the GPU, calibrated by its probes, on a host slowed by a factor.

        Raises:
            DoesNotFit: Its memory can't hold a request.
        """
        clock = clock_mhz or self.gpu.clocks_mhz.on_share(part.loaded)
        profile = (self.engine_profile(spec, controls) or ENGINES[str(spec.software)]).host_slowed(host)
        return self._engines.tenant(
            self.spec(spec), part, load, clock_mhz=clock, slower=self.die.time, calibrated=profile
        )

    def batching(
        self,
        spec: WorkloadSpec,
        part: Part,
        load: EngineLoad,
        *,
        clock_mhz: float | None,
        controls: Controls = UNCONTROLLED,
        host: float = 1.0,
    ) -> BatchingTenant:
        """The server that executes together what waits, on a part of the GPU and a host slowed by a factor."""

        def trace(count: int) -> Trace:
            request = self.request(_batched(spec, count))
            return self.trace(request, part, controls, clock_mhz=clock_mhz).host_slowed(host)

        return BatchingTenant(trace, spec.at_once or 1, load)

    def engine_fit(self, spec: WorkloadSpec, controls: Controls) -> EngineFit | None:
        """What probes of its engine say about host and device; None without probes.

        Raises:
            DeviceError: There are too few probes, or their times can't be of this model on this GPU.
        """
        spec = self.spec(spec)
        probes = tuple(time for time in controls.solo_ms or self.measured if time.probe and time.of_kind(spec))
        if not probes:
            return None
        key = (spec.name, str(spec.software), spec.quantised, spec.parallel, probes)
        if key not in self._engine_fits:
            self._engine_fits[key] = self._engines.fit(spec, probes)
        return self._engine_fits[key]

    def engine_profile(self, spec: WorkloadSpec, controls: Controls) -> EngineProfile | None:
        """The engine as its probes show it; None without probes."""
        fit = self.engine_fit(spec, controls)
        return None if fit is None else fit.profile(ENGINES[str(spec.software)])

    def engine_queue(self, spec: WorkloadSpec, part: Part, *, clock_mhz: float | None = None) -> EngineQueue:
        """The engine alone on a part of the GPU, for the tails of its times. Raises DoesNotFit."""
        clock = clock_mhz or self.gpu.clocks_mhz.on_share(part.loaded)
        calibrated = self.engine_profile(spec, UNCONTROLLED)
        return self._engines.queue(self.spec(spec), part, clock_mhz=clock, slower=self.die.time, calibrated=calibrated)

    def engine_step(
        self,
        spec: WorkloadSpec,
        part: Part,
        step: StepShape,
        *,
        clock_mhz: float | None = None,
        controls: Controls = UNCONTROLLED,
    ) -> Trace:
        """The kernels of an engine's step."""
        clock = clock_mhz or self.gpu.clocks_mhz.on_share(part.loaded)
        profile = self.engine_profile(spec, controls) or ENGINES[str(spec.software)]
        return self._engines.traces(self.spec(spec), part, profile, clock_mhz=clock, slower=self.die.time).of(
            profile, step
        )

    def sequence_bytes(self, spec: WorkloadSpec) -> float:
        """Cache of an engine's request. Raises DoesNotFit."""
        return self._engines.sequence_bytes(self.spec(spec))

    def request_s(self, spec: WorkloadSpec, *, in_flight: int = 1, controls: Controls = UNCONTROLLED) -> float:
        """Time of a request alone on the entire GPU, in closed form; an engine's with this many in flight."""
        if self.served(spec):
            calibrated = self.engine_profile(spec, controls)
            return self._engines.request_s(self.spec(spec), whole_of(self.gpu), in_flight, calibrated=calibrated)
        return self.trace(self.request(spec), whole_of(self.gpu), Controls()).alone_ns() / 1e9

    @property
    def _engines(self) -> Engines:
        if self._known_engines is None:
            self._known_engines = Engines(self.gpu, self.describing.dimensions)
        return self._known_engines

    @property
    def tenant_bytes(self) -> int:
        """A CUDA context."""
        return int(self.gpu.context_mib * 2**20)

    def memory_bytes(self, spec: WorkloadSpec) -> int:
        """A tenant's memory: context, weights, inputs, peak activations, and fragmentation; an engine's least."""
        if self.served(spec):
            return self.tenant_bytes + self._engines.least_bytes(self.spec(spec))
        if in_batches(spec):
            spec = _batched(spec, spec.at_once or 1)
        needed = need(self.request(spec).properties, self.gpu)
        return self.tenant_bytes if needed is None else needed.total

    def request(self, spec: WorkloadSpec) -> RequestKernels:
        """The request's kernels, from a dry run of the workload; cached."""
        spec = self.spec(spec)
        key = spec.model_dump_json()
        if key not in self._requests:
            whole = self.describing.request(
                spec.model_copy(update={"parallel": 1, "at_once": None, "prefix_hits": 0.0})
            )  # traced once, however it is split
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
        if controls.host_us is None:
            return request.launch_ns(self.gpu.architecture)
        return np.asarray(request.kernels.launches * (controls.host_us * 1e3) + request.loading_ns)

    def calibrated(self, request: RequestKernels, controls: Controls) -> tuple[RequestKernels, SoloFit]:
        """The request calibrated by the measured solo times, and what they imply about host and device.

        Whether float32 products were rounded for tensor cores depends on the user's software; the times show it.

        Raises:
            DeviceError: A time is shorter than the GPU's peak rates allow.
        """
        spec = request.spec
        measured = controls.solo_ms or self.measured
        given = [time for time in measured if time.of_kind(spec) and not time.probe]
        if not given:
            return request, UNFITTED
        key = (spec.model_dump_json(), measured)
        if key not in self._fits:
            variants = [request.execution]
            if spec.dtype == "float32" and self.gpu.tensor_tflops.tf32 and not spec.tf32:
                variants.append(replace(request.execution, tf32="all"))
            fits = [self._fitted(spec, given, variant) for variant in variants]
            self._fits[key] = min(fits, key=lambda fitted: fitted[1].cost)
        return self._fits[key]

    def _fitted(
        self, spec: WorkloadSpec, given: Sequence[SoloTime], execution: Execution
    ) -> tuple[RequestKernels, SoloFit]:
        measured = [self._solo(time, self.describing.request(time.spec(spec), execution)) for time in given]
        fit = fit_solos(measured)
        exact = [time for point, time in zip(given, measured, strict=True) if point.exactly(spec)]
        return self.describing.request(spec, execution), matched(fit, exact[0]) if exact else fit

    def _solo(self, time: SoloTime, request: RequestKernels) -> SoloPoint:
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
        return replace(solo_of(self.gpu, request, time.ms * 1e6), utilisation=time.utilisation)

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


def _batched(spec: WorkloadSpec, count: int) -> WorkloadSpec:
    """Several requests as a single one."""
    return spec.model_copy(update={"batch": count * spec.batch, "at_once": None})


# --- Requests on a part of a typical GPU of its model, ready for the event simulation


def on_part(
    gpu: GpuSpec,
    request: RequestKernels,
    part: Part,
    *,
    launch_ns: Floats | None = None,
    fit: SoloFit = UNFITTED,
    measured_ms: float | None = None,
    clock_mhz: float | None = None,
) -> Trace:
    """The request's kernels with their times on this part.

    Args:
        gpu: The GPU.
        request: The request.
        part: Its SMs and bandwidth.
        launch_ns: Host time of each kernel's launches; None: the default of its software.
        fit: Correction for the user's machine.
        measured_ms: Measured time of its kernels alone on the entire GPU, to which they are scaled.
        clock_mhz: None: the sustained clock with this share of its SMs busy.
    """
    costs = solo_costs(
        request.kernels,
        gpu,
        sms=part.sms,
        bandwidth_share=part.dram_share,
        l2_share=part.dram_share,
        clock_mhz=clock_mhz or gpu.clocks_mhz.on_share(part.loaded),
        efficiency=ORDERED if request.spec.channels_last else FITTED,
    ).slowed(request.execution.slower(request.spec.dtype) * fit.device, request.execution.gap_us * 1e3)
    if measured_ms is not None:
        alone = solo_costs(request.kernels, gpu).total_ns
        costs = calibrated(costs, costs.total_ns * measured_ms * 1e6 / alone)
    trace = trace_of(
        request.kernels,
        costs,
        domain_sms=part.domain_sms,
        bytes_per_ns=gpu.bandwidth_gb_s * part.dram_share,
        launch_ns=(request.launch_ns(gpu.architecture) if launch_ns is None else launch_ns) * fit.host,
        slot=request.slot,
        before_us=(request.execution.before_us + request.execution.item_us * request.spec.batch) * fit.host
        + fit.item_ns * request.spec.batch / 1e3,
        after_us=request.execution.after_us * fit.host,
    )
    return replace(trace, waited=np.maximum(trace.waited, request.read))


def solo_of(gpu: GpuSpec, request: RequestKernels, measured_ns: float) -> SoloPoint:
    """A measured time of this request alone on the entire GPU, with its simulation."""
    trace = on_part(gpu, request, whole_of(gpu))
    return SoloPoint(
        request.spec.batch,
        measured_ns,
        pace=Pace.of(trace.launch_ns, trace.duration_ns, trace.waited),
        around_ns=trace.before_ns + trace.after_ns,
    )


def between_clocks(gpu: GpuSpec, clock_mhz: float, at: Callable[[float], Trace]) -> Trace:
    """Interpolate the trace between two clock steps; times are proportional to 1 / clock.

    Dies of a fleet rarely settle at the same clock; traces at the steps serve them all.
    """
    step = gpu.clocks_mhz.step
    low = clock_mhz // step * step or step
    weight = (1 / low - 1 / clock_mhz) / (1 / low - 1 / (low + step))
    return at(low).towards(at(low + step), weight)
