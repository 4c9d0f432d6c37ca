"""Time of each kernel alone on a GPU or a part of it: a roofline with tiles, waves, L2 and launches."""

from dataclasses import dataclass, replace

import numpy as np

from cotenant.prediction.gpu import DTYPES, GpuSpec
from cotenant.prediction.kernels.columns import ALL_REDUCE, KINDS, TRANSFER, Bools, Floats, Kernels
from cotenant.prediction.kernels.efficiency import FITTED, Efficiency

_GEMM = KINDS.index("gemm")
_CONV = KINDS.index("conv")
_CONV3X3 = KINDS.index("conv3x3")
_GRADIENT = KINDS.index("weight_gradient")
_PRODUCTS = (_GEMM, _CONV, _CONV3X3, _GRADIENT)
_DEPTHWISE = KINDS.index("depthwise")
_ATTENTION = KINDS.index("attention")
_FLOAT32 = DTYPES.index("float32")
_PASSING = tuple(KINDS.index(kind) for kind in ("elementwise", "activation", "reduction", "copy"))
_BYTES = np.array([8.0, 4.0, 2.0, 2.0, 1.0])
"""Bytes per value, by number format."""
_EASY_TO_FEED = 1024.0
"""Operations per clock and SM up to which shared memory keeps up with the arithmetic."""
_DOUBLED_LANES = ("8.6", "8.7", "8.9", "12.0")
"""Compute capabilities whose float32 peak counts lanes that are shared with integer arithmetic."""
_PARTIAL_SUM_BYTES = 8.0
"""A split product writes and reads each partial result in float32."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Solo times of kernels on a GPU or a part of it, in nanoseconds; an entry per kernel."""

    duration_ns: Floats
    """From its start on the device to the next kernel's start."""
    compute_ns: Floats
    """Time of the arithmetic alone."""
    memory_ns: Floats
    """Time of the DRAM traffic alone."""
    l2_ns: Floats
    """Time of the traffic between SMs and L2 alone."""
    fixed_ns: Floats
    """Fixed overhead: start, fill, drain."""
    sms: Floats
    """SMs it keeps busy; it can't use more."""
    filled: Floats
    """SMs whose room for thread blocks it fills: others fit beside a few small ones."""
    waves: Floats
    """Waves of thread blocks, at least 1: a block holds its SM for the duration divided by this."""
    dram_bytes: Floats
    """Traffic to DRAM."""
    tensor: Bools
    """Whether it runs on tensor cores."""

    def slowed(self, factor: float, gap_ns: float = 0.0) -> "Costs":
        """The same with kernels slower by this factor, each with this delay."""
        if factor == 1.0 and gap_ns == 0.0:
            return self
        times = {name: getattr(self, name) * factor for name in ("compute_ns", "memory_ns", "l2_ns")}
        later = {name: getattr(self, name) * factor + gap_ns for name in ("duration_ns", "fixed_ns")}
        return replace(self, **times, **later)

    @property
    def total_ns(self) -> float:
        """Sum over all kernels."""
        return float(self.duration_ns.sum())


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a GPU."""

    gpu: GpuSpec
    sms: float
    clock: float
    """Relative to the boost clock."""
    bandwidth: float
    """Bytes per nanosecond."""
    l2_bytes: float

    def drawn(self, used: Floats, efficiency: Efficiency) -> Floats:
        """Fraction of the part's bandwidth that this many SMs draw in one pass over memory."""
        return _in_series(used * efficiency.drawn_gb_s / self.bandwidth)

    def reach(self, used: Floats, efficiency: Efficiency) -> Floats:
        """Fraction of the part's bandwidth this many SMs can use: their requests in flight, and DRAM, in series."""
        knee = max(1.0, efficiency.saturating * self.gpu.sms * (self.bandwidth / self.gpu.bandwidth_gb_s))
        all_of_them = self.gpu.sms / max(1.0, efficiency.saturating * self.gpu.sms)
        return np.minimum(1.0, _in_series(used / knee) / _in_series(np.asarray(all_of_them)))


def solo_costs(
    kernels: Kernels,
    gpu: GpuSpec,
    *,
    sms: int | None = None,
    bandwidth_share: float = 1.0,
    l2_share: float = 1.0,
    clock_mhz: float | None = None,
    efficiency: Efficiency = FITTED,
) -> Costs:
    """Time of each kernel with its part of the GPU to itself.

    Args:
        kernels: The kernels.
        gpu: The GPU.
        sms: SMs it may use; all if None.
        bandwidth_share: Its share of the DRAM bandwidth.
        l2_share: Its share of the L2.
        clock_mhz: SM clock; None: the GPU's sustained clock.
        efficiency: Efficiency of libraries.
    """
    part = _Part(
        gpu,
        sms=float(min(sms or gpu.sms, gpu.sms)),
        clock=(clock_mhz or gpu.clocks_mhz.under_load) / gpu.clocks_mhz.boost,
        bandwidth=gpu.bandwidth_gb_s * bandwidth_share,
        l2_bytes=gpu.l2_bytes * l2_share,
    )
    on_cores, sm_rate = _sm_rates(kernels, part, efficiency)
    dram_bytes = _dram_traffic(kernels, part, efficiency)
    compute, used, partial = _plain_compute(kernels, part, efficiency, sm_rate)
    filled = np.minimum(used, kernels.blocks / efficiency.small_blocks)
    waves = np.maximum(1.0, kernels.blocks / (part.sms * efficiency.small_blocks))
    products = np.isin(kernels.kind, _PRODUCTS)
    if products.any():
        rows = np.flatnonzero(products)
        compute[rows], used[rows], partial[rows], waves[rows] = _tiled_compute(
            kernels.take(rows),
            part,
            efficiency,
            _product_rates(kernels, efficiency, sm_rate, on_cores)[rows],
            dram_bytes[rows],
        )
        filled[rows] = used[rows]
        waves[rows] *= kernels.launches[rows]
    dram_bytes = dram_bytes + partial
    shares = np.array([efficiency.dram[kind] for kind in KINDS])[kernels.kind]
    shares = np.where(_plain_depthwise(kernels), shares * efficiency.plain_depthwise, shares)
    passing = np.isin(kernels.kind, _PASSING)
    reached = np.where(passing, part.drawn(used, efficiency), part.reach(used, efficiency))
    memory = dram_bytes / (part.bandwidth * shares * reached)
    l2_rate = efficiency.l2_bytes_per_clock * gpu.clocks_mhz.boost * part.clock * used * 1e-3
    l2 = (kernels.read + kernels.written) / l2_rate
    launch_us = gpu.launch_us if efficiency.launch_us is None else efficiency.launch_us
    fixed = kernels.launches * launch_us * 1e3 + (partial > 0) * efficiency.split_us * 1e3
    sums = kernels.kind == ALL_REDUCE
    transfers = (kernels.kind == TRANSFER) | sums
    link = (gpu.link_gb_s or gpu.host_gb_s) * efficiency.link
    wire = np.where(
        sums, kernels.written / link + kernels.batches * efficiency.hop_us * 1e3, kernels.written / gpu.host_gb_s
    )
    compute, memory, l2 = (np.where(transfers, 0.0, values) for values in (compute, memory, l2))
    streamed = _streamed_ns(kernels, efficiency)
    busy = np.where(transfers, wire, overlapped(efficiency.overlap, compute, memory, l2, streamed))
    reordered = _reordered_bytes(kernels, part, efficiency, on_cores)
    busy = busy + reordered / (part.bandwidth * part.drawn(np.asarray(part.sms), efficiency))
    dram_bytes = dram_bytes + reordered
    return Costs(
        duration_ns=busy + fixed,
        compute_ns=compute,
        memory_ns=memory,
        l2_ns=l2,
        fixed_ns=fixed + np.where(transfers, wire, 0.0),
        sms=np.where(transfers, 0.0, used),
        filled=np.where(transfers, 0.0, filled),
        waves=waves,
        dram_bytes=dram_bytes,
        tensor=on_cores,
    )


def plain_roofline_ns(kernels: Kernels, gpu: GpuSpec) -> Floats:
    """Trivial baseline: the larger of arithmetic at peak rate and traffic at full bandwidth."""
    vector = np.array([gpu.vector_rate(dtype) for dtype in DTYPES])[kernels.dtype]
    cores = np.array([gpu.tensor_rate(dtype) or 0.0 for dtype in DTYPES])[kernels.dtype]
    peak = np.where(kernels.tensor & (cores > 0), cores, vector)
    return np.maximum(kernels.flops / peak * 1e9, (kernels.read + kernels.written) / gpu.bandwidth_gb_s)


def least_ns(kernels: Kernels, gpu: GpuSpec) -> float:
    """Lower bound for any software: all arithmetic at the highest rate, with rounded float32 on tensor cores."""
    rates = np.array([max(gpu.vector_rate(dtype), gpu.tensor_rate(dtype) or 0.0) for dtype in DTYPES])
    return float((kernels.flops / rates[kernels.dtype]).sum() * 1e9)


def _in_series(demand: Floats) -> Floats:
    return np.asarray(demand / np.sqrt(1.0 + demand**2))


def overlapped(exponent: float, *times: Floats) -> Floats:
    """Between the largest and the sum."""
    largest = np.maximum.reduce(times)
    scale = np.where(largest > 0, largest, 1.0)
    return scale * sum(((time / scale) ** exponent for time in times), np.zeros_like(scale)) ** (1.0 / exponent)


def _sm_rates(kernels: Kernels, part: _Part, efficiency: Efficiency) -> tuple[Bools, Floats]:
    """Whether tensor cores are used, and the peak operations per nanosecond of an SM."""
    gpu = part.gpu
    vector = np.array([gpu.vector_rate(dtype) for dtype in DTYPES])[kernels.dtype]
    cores = np.array([gpu.tensor_rate(dtype) or 0.0 for dtype in DTYPES])[kernels.dtype]
    on_cores = kernels.tensor & (cores > 0)
    per_clock = np.where(on_cores, cores, vector) / (gpu.sms * gpu.clocks_mhz.boost * 1e6)
    fed = np.clip((_EASY_TO_FEED / per_clock) ** efficiency.feeding, 1.0, efficiency.fed)
    lanes = efficiency.doubled if gpu.compute_capability in _DOUBLED_LANES else 1.0
    lanes *= efficiency.vector.get(gpu.architecture, 1.0)
    achieved = np.where(on_cores, efficiency.tensor[gpu.architecture], lanes) * fed
    clock = np.where(on_cores & (kernels.dtype == _FLOAT32), _clock_of_rounded(part, efficiency), part.clock)
    return on_cores, per_clock * gpu.clocks_mhz.boost * clock * achieved * 1e-3


def _clock_of_rounded(part: _Part, efficiency: Efficiency) -> float:
    """The clock under products of TF32, which draw less power than those that set the sustained clock.

    Power grows with the cube of the clock.
    """
    clocks = part.gpu.clocks_mhz
    allowed = float(np.cbrt(1 / efficiency.rounded_power))
    return min(1.0, part.clock * min(allowed, clocks.boost / clocks.under_load))


def _dram_traffic(kernels: Kernels, part: _Part, efficiency: Efficiency) -> Floats:
    """Weights come from DRAM; what the previous kernel wrote is in L2 as far as it fits."""
    recent = kernels.read - kernels.weights + kernels.written
    kept = np.minimum(1.0, efficiency.l2_kept * part.l2_bytes / np.maximum(recent, 1.0))
    return kernels.weights + recent * (1.0 - kept)


def _streamed_ns(kernels: Kernels, efficiency: Efficiency) -> Floats:
    """Time in which a thread block reads its part of the context of a single token."""
    decodes = (kernels.kind == _ATTENTION) & (kernels.m == 1)
    context = np.minimum(kernels.n, efficiency.streamed)
    return np.where(decodes, 2.0 * context * kernels.k * _BYTES[kernels.dtype] / efficiency.streamed_gb_s, 0.0)


def _reordered_bytes(kernels: Kernels, part: _Part, efficiency: Efficiency, on_cores: Bools) -> Floats:
    """Traffic to bring operands into the order (a convolution's float32) or format of tensor cores."""
    rounded = np.isin(kernels.kind, (_CONV, _CONV3X3, _GRADIENT)) & on_cores & (kernels.dtype == _FLOAT32)
    moved = _dram_traffic(kernels, part, efficiency) - kernels.weights
    operands = np.where(kernels.kind == _GEMM, kernels.m * kernels.k * kernels.batches, 0.0)
    return np.where(rounded, efficiency.layout * 2.0 * moved, efficiency.rounding * 3.0 * operands)


def _plain_compute(
    kernels: Kernels, part: _Part, efficiency: Efficiency, sm_rate: Floats
) -> tuple[Floats, Floats, Floats]:
    used = np.clip(kernels.blocks, 1.0, part.sms)
    share = np.where(
        kernels.kind == _ATTENTION,
        efficiency.attention[part.gpu.architecture],
        np.where(kernels.kind == _DEPTHWISE, efficiency.depthwise, 1.0),
    )
    return kernels.flops / (sm_rate * used * share), used, np.zeros(len(kernels))


def _plain_depthwise(kernels: Kernels) -> Bools:
    return np.asarray((kernels.kind == _DEPTHWISE) & (kernels.dtype == _FLOAT32))


def _product_rates(kernels: Kernels, efficiency: Efficiency, sm_rate: Floats, on_cores: Bools) -> Floats:
    rate = sm_rate * np.where(kernels.kind == _GEMM, 1.0, efficiency.convolution)
    rate = rate * np.where(kernels.kind == _GRADIENT, efficiency.gradient, 1.0)
    return rate * np.where((kernels.kind == _CONV3X3) & ~on_cores, efficiency.winograd, 1.0)


def _tiled_compute(
    kernels: Kernels, part: _Part, efficiency: Efficiency, sm_rate: Floats, dram_bytes: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Arithmetic time, SMs used, extra traffic and waves for the fastest tile and split, as libraries choose."""
    best = np.full(len(kernels), np.inf)
    compute, used, partial, turns = best.copy(), best.copy(), best.copy(), best.copy()
    # A fused kernel's arithmetic slightly exceeds its product's, and scales with it.
    work = kernels.flops / np.maximum(1.0, 2.0 * kernels.m * kernels.n * kernels.k * kernels.batches)
    long_sums = kernels.kind == _GRADIENT
    # Libraries hardly ever split convolutions, or products too small for the host to keep up with.
    may_split = ((kernels.kind == _GEMM) & (kernels.launches == 1)) | long_sums
    for (rows, columns), share in (*efficiency.tiles.items(), *efficiency.skinny.items()):
        grid = np.ceil(kernels.m / rows) * np.ceil(kernels.n / columns) * kernels.batches
        for split in (*efficiency.splits, *(efficiency.long_splits if long_sums.any() else ())):
            allowed = (may_split & (split in efficiency.splits)) | long_sums | (split == 1)
            if not allowed.any():
                continue
            blocks = grid * split
            waves = blocks / part.sms
            rounds = np.maximum(1.0, (1 - efficiency.smooth) * np.ceil(waves) + efficiency.smooth * waves)
            depth = kernels.k / split + efficiency.fill
            arithmetic = rounds * 2.0 * rows * columns * depth * work / (sm_rate * share)
            busy = np.minimum(part.sms, blocks)
            extra = (split > 1) * split * kernels.m * kernels.n * kernels.batches * _PARTIAL_SUM_BYTES
            memory = (dram_bytes + extra) / (part.bandwidth * efficiency.dram["gemm"] * part.reach(busy, efficiency))
            total = overlapped(efficiency.overlap, arithmetic, memory) + (split > 1) * efficiency.split_us * 1e3
            better = (total < best) & allowed
            best = np.where(better, total, best)
            compute = np.where(better, arithmetic, compute)
            used = np.where(better, busy, used)
            partial = np.where(better, extra, partial)
            turns = np.where(better, np.maximum(1.0, np.ceil(waves)), turns)
    return compute, used, partial, turns
