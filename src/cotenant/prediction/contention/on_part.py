"""A request on a part of a typical GPU of its model, ready for the engine."""

from collections.abc import Callable

import numpy as np

from cotenant.prediction.calibration.solo import UNFITTED, SoloFit, SoloPoint
from cotenant.prediction.contention.layout import Part, whole_of
from cotenant.prediction.contention.trace import Trace, trace_of
from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.kernels.columns import Floats
from cotenant.prediction.kernels.cost import solo_costs
from cotenant.prediction.kernels.request import RequestKernels
from cotenant.prediction.kernels.traces import calibrated


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
    ).slowed(request.execution.slower(request.spec.dtype) * fit.device, request.execution.gap_us * 1e3)
    if measured_ms is not None:
        alone = solo_costs(request.kernels, gpu).total_ns
        costs = calibrated(costs, costs.total_ns * measured_ms * 1e6 / alone)
    return trace_of(
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


def solo_of(gpu: GpuSpec, request: RequestKernels, measured_ns: float) -> SoloPoint:
    """A measured time of this request alone on the entire GPU, with its simulation."""
    trace = on_part(gpu, request, whole_of(gpu))
    return SoloPoint(
        request.spec.batch,
        measured_ns,
        launched_ns=np.cumsum(trace.launch_ns),
        remaining_ns=np.cumsum(trace.duration_ns[::-1])[::-1],
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
