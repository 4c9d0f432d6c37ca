"""The kernels of a request with their times on a GPU, summed by name; and times scaled to a measurement."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from cotenant.errors import WorkloadError
from cotenant.prediction.kernels.columns import KINDS, Floats, Kernels
from cotenant.prediction.kernels.cost import Costs
from cotenant.workloads.protocol import WorkloadSpec


@dataclass(frozen=True, slots=True)
class KernelLine:
    """All kernels of the same name in a trace."""

    name: str
    kind: str
    count: int
    time_ns: float
    share: float
    """Fraction of the request's device time."""
    limit: str
    """Dominant resource: arithmetic, tensor cores, DRAM, L2 or launches."""
    flops: float
    dram_bytes: float
    tensor_cores: bool
    """Whether some of them use tensor cores."""
    sms: float
    """Busy SMs, weighted by time."""
    waves: float
    """Thread blocks per SM, weighted by time; below 1, SMs are idle."""


@dataclass(frozen=True, slots=True)
class KernelTrace:
    """The kernels of a request, alone on a simulated GPU."""

    workload: str
    batch: int
    dtype: str
    device: str
    sms: int
    """SMs of the GPU."""
    software: str
    kernels: int
    launches: int
    device_ns: float
    """Sum over all kernels; simulated."""
    lines: tuple[KernelLine, ...]
    """By name, longest first."""


def kernel_trace(spec: WorkloadSpec, kernels: Kernels, costs: Costs, *, device: str, sms: int) -> KernelTrace:
    """The kernels of a request with their times alone on a GPU."""
    return KernelTrace(
        workload=spec.name,
        batch=spec.batch,
        dtype=str(spec.dtype),
        device=device,
        sms=sms,
        software=spec.software or "eager",
        kernels=len(kernels),
        launches=int(kernels.launches.sum()),
        device_ns=costs.total_ns,
        lines=look_at(kernels, costs, sms=sms),
    )


def look_at(kernels: Kernels, costs: Costs, *, sms: int) -> tuple[KernelLine, ...]:
    """Summarise a trace by kernel name, longest first.

    Args:
        kernels: The kernels.
        costs: Their solo costs.
        sms: SMs of the GPU.
    """
    return tuple(sorted(_lines(kernels, costs, sms), key=lambda line: -line.time_ns))


def _lines(kernels: Kernels, costs: Costs, sms: int) -> Iterator[KernelLine]:
    total = max(costs.total_ns, 1e-9)
    for number, name in enumerate(kernels.names):
        rows = np.flatnonzero(kernels.name == number)
        if rows.size == 0:
            continue
        time = costs.duration_ns[rows]
        cores = bool(costs.tensor[rows].any())
        parts: Mapping[str, float] = {
            "tensor cores" if cores else "arithmetic": float(costs.compute_ns[rows].sum()),
            "DRAM": float(costs.memory_ns[rows].sum()),
            "L2": float(costs.l2_ns[rows].sum()),
            "launches": float(costs.fixed_ns[rows].sum()),
        }
        yield KernelLine(
            name=name,
            kind=KINDS[int(kernels.kind[rows[0]])],
            count=int(rows.size),
            time_ns=float(time.sum()),
            share=float(time.sum()) / total,
            limit=max(parts, key=lambda part: parts[part]),
            flops=float(kernels.flops[rows].sum()),
            dram_bytes=float(costs.dram_bytes[rows].sum()),
            tensor_cores=cores,
            sms=_weighted(costs.sms[rows], time),
            waves=_weighted(kernels.blocks[rows], time) / sms,
        )


def _weighted(values: Floats, time: Floats) -> float:
    return float((values * time).sum() / max(float(time.sum()), 1e-9))


def calibrated(costs: Costs, measured_ns: float) -> Costs:
    """Scale costs to a measured device time.

    Args:
        costs: Solo costs of a request.
        measured_ns: Measured device time of that request alone.
    """
    if not measured_ns > 0:
        raise WorkloadError(f"a measured time must be above 0, not {measured_ns:g} ns")
    factor = measured_ns / costs.total_ns
    return replace(
        costs,
        duration_ns=costs.duration_ns * factor,
        compute_ns=costs.compute_ns * factor,
        memory_ns=costs.memory_ns * factor,
        l2_ns=costs.l2_ns * factor,
        fixed_ns=costs.fixed_ns * factor,
    )
