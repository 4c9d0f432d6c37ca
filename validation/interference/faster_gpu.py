"""What solo times on a faster GPU say about a slower one.

A kernel takes longer on the slower GPU by at most the ratio of their peak rates. If a request's time grows by more, the
rest is its host's: a slower machine that prepares the next batch while the device works.
"""

from collections.abc import Mapping
from dataclasses import replace

from cotenant.prediction.sharing.trace import Trace
from validation.interference.gavel_data import Gpu

_ROUNDING = 1.001
"""Device times from FLOPs differ by exactly the ratio."""


def bounded(slower: Mapping[str, Trace], faster: Mapping[str, Trace], gpu: Gpu, faster_gpu: Gpu) -> Mapping[str, Trace]:
    """Requests on the slower GPU, with no more device time than those of the faster one allow."""
    ratio = max(faster_gpu.flops / gpu.flops, faster_gpu.bytes_per_s / gpu.bytes_per_s)
    return {
        name: _within(trace, ratio * faster[name].device_ns) if name in faster else trace
        for name, trace in slower.items()
    }


def _within(trace: Trace, device_ns: float) -> Trace:
    """The same time alone with this much device time at most; the host's overlaps with it."""
    if trace.device_ns <= device_ns * _ROUNDING:
        return trace
    launches = float(trace.launch_ns.sum())
    return replace(
        trace,
        duration_ns=trace.duration_ns * (device_ns / trace.device_ns),
        block_ns=trace.block_ns * (device_ns / trace.device_ns),
        launch_ns=trace.launch_ns * (max(trace.device_ns, launches) / launches),
    )
