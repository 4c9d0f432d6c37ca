"""A request on a part of a typical GPU of its kind, ready for the engine."""

from collections.abc import Callable

from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.kernels.cost import solo_costs
from cotenant.prediction.kernels.request import RequestKernels
from cotenant.prediction.kernels.traces import calibrated
from cotenant.prediction.sharing.layout import Part
from cotenant.prediction.sharing.trace import Trace, trace_of

BEFORE_US, AFTER_US = 30.0, 15.0
"""Host time of a request before its first launch, and after its last kernel; estimates."""


def on_part(
    gpu: GpuSpec,
    request: RequestKernels,
    part: Part,
    *,
    launch_us: float,
    measured_ms: float | None = None,
    clock_mhz: float | None = None,
) -> Trace:
    """The request's kernels with their times on this part.

    Args:
        gpu: Which.
        request: What runs.
        part: SMs and bandwidth that it has.
        launch_us: Host time per launch.
        measured_ms: A measured time of its kernels alone on the whole GPU, which scales all of them.
        clock_mhz: None: the clock that costs assume.
    """
    costs = solo_costs(
        request.kernels,
        gpu,
        sms=part.sms,
        bandwidth_share=part.dram_share,
        l2_share=part.dram_share,
        clock_mhz=clock_mhz,
    )
    if measured_ms is not None:
        alone = solo_costs(request.kernels, gpu).total_ns
        costs = calibrated(costs, costs.total_ns * measured_ms * 1e6 / alone)
    return trace_of(
        request.kernels,
        costs,
        domain_sms=part.domain_sms,
        bytes_per_ns=gpu.bandwidth_gb_s * part.dram_share,
        host_us=launch_us,
        slot=request.slot,
        before_us=BEFORE_US,
        after_us=AFTER_US,
    )


def between_clocks(gpu: GpuSpec, clock_mhz: float, at: Callable[[float], Trace]) -> Trace:
    """The trace at a clock between two of the GPU's steps, where times go with 1 / clock.

    Hardly two dies of a fleet settle at the same clock; traces at the steps serve them all.
    """
    step = gpu.clocks_mhz.step
    low = clock_mhz // step * step or step
    weight = (1 / low - 1 / clock_mhz) / (1 / low - 1 / (low + step))
    return at(low).towards(at(low + step), weight)
