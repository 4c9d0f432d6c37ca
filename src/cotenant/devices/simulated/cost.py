"""How long each kernel takes alone on a GPU, or on a part of one."""

from dataclasses import dataclass

import numpy as np

from cotenant.devices.simulated.catalogue.spec import DTYPES, GpuSpec
from cotenant.devices.simulated.kernels import Floats, Kernels


@dataclass(frozen=True, slots=True)
class Costs:
    """Solo times of kernels on a GPU or a part of it; one entry per kernel, nanoseconds."""

    duration_ns: Floats
    """From its start on the device to the next kernel's start, alone."""
    compute_ns: Floats
    """If arithmetic alone counted."""
    memory_ns: Floats
    """If DRAM traffic alone counted."""
    fixed_ns: Floats
    """What no resource shortens: start, fill, drain."""
    sms: Floats
    """SMs that it keeps busy; it can't use more."""
    dram_bytes: Floats
    """Traffic that reaches DRAM."""
    tensor: Floats
    """1 where tensor cores do the arithmetic, else 0."""


def solo_costs(
    kernels: Kernels,
    gpu: GpuSpec,
    *,
    sms: int | None = None,
    bandwidth_share: float = 1.0,
    l2_share: float = 1.0,
    clock_mhz: float | None = None,
) -> Costs:
    """Time of each kernel with nobody else on its part of the GPU.

    Args:
        kernels: What runs.
        gpu: Where.
        sms: SMs that it may use; all of them if None.
        bandwidth_share: Its part of the DRAM bandwidth.
        l2_share: Its part of the L2.
        clock_mhz: SM clock; the boost clock if None.
    """
    del l2_share
    clock = (clock_mhz or gpu.clocks_mhz.boost) / gpu.clocks_mhz.boost
    available = float(sms or gpu.sms)
    used = np.clip(kernels.blocks, 1.0, available)
    vector = np.array([gpu.vector_rate(dtype) for dtype in DTYPES])[kernels.dtype]
    with_cores = np.array([gpu.tensor_rate(dtype) or 0.0 for dtype in DTYPES])[kernels.dtype]
    on_cores = kernels.tensor & (with_cores > 0)
    peak = np.where(on_cores, with_cores, vector) * clock * used / gpu.sms
    traffic = kernels.read + kernels.written
    compute = kernels.flops / peak * 1e9
    memory = traffic / (gpu.bandwidth_gb_s * bandwidth_share)
    fixed = np.full(len(kernels), gpu.launch_us * 1e3)
    return Costs(
        duration_ns=np.maximum(compute, memory) + fixed,
        compute_ns=compute,
        memory_ns=memory,
        fixed_ns=fixed,
        sms=used,
        dram_bytes=traffic,
        tensor=on_cores.astype(np.float64),
    )
