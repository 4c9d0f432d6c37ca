"""A request as seen by a GPU: its kernels and the stage of each; quantised, or split over several GPUs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cotenant.prediction.contention.trace import Trace
from cotenant.prediction.gpu import DTYPES, Architecture, GpuSpec
from cotenant.prediction.kernels.columns import ALL_REDUCE, KINDS, TRANSFER, Bools, Floats, Ints, Kernels, joined
from cotenant.prediction.kernels.fusion import OPTIMISER, backward_begins
from cotenant.prediction.kernels.software import Execution
from cotenant.workloads.protocol import Operator, Properties, Quantised, StageCost, WorkloadSpec

_NOTHING = Operator("_to_copy", "float32", ((1,),), ((1,),), 0.0, 4.0, 4.0)


@dataclass(frozen=True, slots=True)
class RequestKernels:
    """The kernels launched for a request."""

    spec: WorkloadSpec
    properties: Properties
    execution: Execution
    kernels: Kernels
    slot: Ints
    """Stage of each kernel."""
    stages: tuple[str, ...]
    first_output: int = -1
    """Index of the kernel that completes the first output; -1 if that is the end."""
    beside_ns: Floats | float = 0.0
    """Host work before a kernel's launch, overlapping with the device; an estimate."""
    waiting_ns: Floats | float = 0.0
    """Host work during which the device waits, at the first kernel of the stage; an estimate."""

    @property
    def waited_ns(self) -> float:
        """Time per request in which the device waits for host work."""
        return float(np.sum(self.waiting_ns))

    def launch_ns(self, architecture: Architecture) -> Floats:
        """Host time to launch each kernel, with a host of this GPU's generation."""
        begun = (
            self.spec.mode == "decode" if self.first_output < 0 else np.arange(len(self.kernels)) > self.first_output
        )
        generates = np.broadcast_to(np.asarray(begun), len(self.kernels))
        return self.execution.launch_ns(self.kernels, architecture, generates) + self.loading_ns

    @property
    def loading_ns(self) -> float:
        """Time of loading data by kernel: a loader reads the next request's while this one's are computed on."""
        return self.spec.loading_s * 1e9 / len(self.kernels)

    @property
    def read(self) -> Floats:
        """1 for the last kernel of each token: the host reads it before it launches the next, to send it or to stop."""
        ends = np.append(self.slot[1:] != self.slot[:-1], False) & (self.slot > 0)
        return np.asarray(ends & (self.spec.mode == "generate"), dtype=np.float64)

    def with_host(self, trace: Trace) -> Trace:
        """The trace with host work added: before launches, or in the device's queue where both wait."""
        return replace(
            trace, launch_ns=trace.launch_ns + self.beside_ns, duration_ns=trace.duration_ns + self.waiting_ns
        )


def inference(spec: WorkloadSpec, properties: Properties, execution: Execution, kernels: Kernels) -> RequestKernels:
    """Copy inputs, compute, copy outputs back."""
    return RequestKernels(spec, properties, execution, kernels, *_ends(kernels, "compute"))


def training(spec: WorkloadSpec, properties: Properties, execution: Execution, kernels: Kernels) -> RequestKernels:
    """Forward, backward and the optimiser."""
    forward = properties.operators[: backward_begins([operator.name for operator in properties.operators])]
    before = len(execution.kernels(forward))
    return RequestKernels(spec, properties, execution, kernels, *_training(kernels, before))


def generation(
    spec: WorkloadSpec, properties: Properties, execution: Execution, kernels: Kernels, *, prompt: Kernels, tokens: int
) -> RequestKernels:
    """A prompt, whose kernels are given separately, then token by token."""
    filled = min(len(prompt), len(kernels))
    return RequestKernels(spec, properties, execution, kernels, *_generating(kernels, filled, tokens))


def staged(
    spec: WorkloadSpec, properties: Properties, execution: Execution, costs: Sequence[StageCost]
) -> RequestKernels:
    """Stage by stage; a host-only stage is an empty copy that ends when the host is done."""
    known: dict[tuple[Operator, ...], Kernels] = {}
    parts = []
    for cost in costs:
        operators = cost.operators or (_NOTHING,)
        if operators not in known:
            known[operators] = execution.kernels(operators)
        parts.append(known[operators])
    sizes = [len(part) for part in parts]
    starts = np.cumsum(sizes) - np.array(sizes)
    beside_ns, waiting_ns = np.zeros(sum(sizes)), np.zeros(sum(sizes))
    beside_ns[starts] = [cost.host_s * 1e9 * cost.beside for cost in costs]
    waiting_ns[starts] = [cost.host_s * 1e9 * (not cost.beside) for cost in costs]
    first = [number for number, cost in enumerate(costs) if cost.first_output]
    return RequestKernels(
        spec,
        properties,
        execution,
        joined(parts),
        np.repeat(np.arange(len(parts)), sizes),
        tuple(cost.stage for cost in costs),
        first_output=int(starts[first[0]] + sizes[first[0]] - 1) if first else -1,
        beside_ns=beside_ns,
        waiting_ns=waiting_ns,
    )


def _ends(kernels: Kernels, middle: str) -> tuple[Ints, tuple[str, ...]]:
    """Make copies at the beginning and end separate stages."""
    moves = kernels.kind == TRANSFER
    work = np.flatnonzero(~moves)
    slot = np.ones(len(kernels), np.int64)
    if work.size:
        slot[: work[0]] = 0
        slot[work[-1] + 1 :] = 2
    return slot, ("to_device", middle, "to_host")


def _training(kernels: Kernels, forward: int) -> tuple[Ints, tuple[str, ...]]:
    """The stages of the real training step, which leaves its loss on the device."""
    ends, _ = _ends(kernels, "forward")
    optimising = np.array([OPTIMISER in kernels.names[name] for name in kernels.name])
    begins = int(np.argmax(optimising)) if optimising.any() else len(kernels)
    number = np.arange(len(kernels))
    slot = np.where(ends == 0, 0, 1 + (number >= forward).astype(np.int64) + (number >= begins))
    return slot, ("to_device", "forward", "backward", "optimiser")


def _generating(kernels: Kernels, filled: int, tokens: int) -> tuple[Ints, tuple[str, ...], int]:
    """The prompt, then token by token."""
    ends, _ = _ends(kernels, "decode")
    steps = max(tokens - 1, 0)
    inside = np.flatnonzero(ends == 1)
    prompt_end = max(int(np.searchsorted(inside, filled)), 1)
    slot = np.where(ends == 2, steps + 2, ends)
    left = inside.size - prompt_end
    if steps and left:
        slot[inside[prompt_end:]] = 2 + np.arange(left) * steps // left
    return slot, ("to_device", "prefill", *["decode"] * steps, "to_host"), int(inside[prompt_end - 1])


# --- Quantised weights
#
# Embeddings and the language-model head are not quantised, as in common checkpoints. `fp8` and `int8` round both sides
# of a product if the GPU's tensor cores support the format. Otherwise, and with `int4`, only the weights are rounded,
# and are widened again on the way to the tensor cores.

_BITS: dict[Quantised, float] = {"fp8": 8.0, "int8": 8.0, "int4": 4.5}
"""Bits per weight; 4-bit weights also have a scale per group."""
_GEMM = KINDS.index("gemm")
_INT8 = DTYPES.index("int8")
_WIDTHS = np.array([8.0, 4.0, 2.0, 2.0, 1.0])
"""Bytes per number, in the order of `DTYPES`."""
_FP8_FROM = (8, 9)
"""First compute capability whose tensor cores support fp8, at the rate of int8."""


def quantised(request: RequestKernels, how: Quantised, gpu: GpuSpec) -> RequestKernels:
    """The same request with its layers' weights in another format."""
    tables = _tables(request.properties.operators)
    kernels = request.kernels
    layers = _layers(kernels, {rows for rows, _ in tables})
    smaller = kernels.weights * np.where(layers, _BITS[how] / 8 / _WIDTHS[kernels.dtype], 1.0)
    spared = kernels.weights - smaller
    rounded = how != "int4" and _has_cores(gpu, how)
    return replace(
        request,
        kernels=replace(
            kernels,
            weights=smaller,
            read=kernels.read - spared,
            working_set=kernels.working_set - spared,
            dtype=np.where(layers, _INT8, kernels.dtype) if rounded else kernels.dtype,
        ),
        properties=_lighter(request.properties, tables, how),
    )


def _layers(kernels: Kernels, vocabularies: set[int]) -> Bools:
    """Products with layer weights, except the language-model head."""
    return np.asarray((kernels.kind == _GEMM) & (kernels.weights > 0) & ~np.isin(kernels.n, sorted(vocabularies)))


def _tables(operators: Sequence[Operator]) -> set[tuple[int, int]]:
    """Shapes of the embeddings."""
    shapes = {operator.shapes[0] for operator in operators if operator.name.endswith("embedding") and operator.shapes}
    return {(shape[0], shape[1]) for shape in shapes if len(shape) == 2}


def _has_cores(gpu: GpuSpec, how: Quantised) -> bool:
    return gpu.tensor_rate("int8") is not None and (how == "int8" or gpu.capability >= _FP8_FROM)


def _lighter(properties: Properties, tables: set[tuple[int, int]], how: Quantised) -> Properties:
    if not properties.params or not properties.weight_bytes:
        return properties
    width = properties.weight_bytes / properties.params
    kept = min(sum(rows * columns for rows, columns in tables), properties.params)
    spared = int((properties.params - kept) * (width - _BITS[how] / 8))
    peak = properties.peak_memory_bytes
    return replace(
        properties,
        weight_bytes=properties.weight_bytes - spared,
        peak_memory_bytes=None if peak is None else peak - spared,
    )


# --- Tensor parallelism: one GPU's part of a request split over several GPUs of the same model
#
# Layers come in pairs: the first of a pair is split by columns, the second by rows, followed by an all-reduce. The
# second is the product after attention, and the product that narrows back to the model's width. Norms, residuals and
# embeddings are replicated on every GPU. Not validated: the errors are unknown.

_ATTENTION = KINDS.index("attention")
_ACTIVATION = KINDS.index("activation")


def parallel(request: RequestKernels, ways: int) -> RequestKernels:
    """Each GPU's part of a request split over this many, including all-reduces."""
    kernels = request.kernels
    products = (kernels.kind == _GEMM) & (kernels.weights > 0)
    behind = _behind_attention(kernels, products)
    width = np.unique(kernels.n[behind])
    by_rows = behind | (products & (kernels.k > kernels.n) & np.isin(kernels.n, width))
    cut = products | np.isin(kernels.kind, (_ATTENTION, _ACTIVATION))
    part = np.where(cut, 1.0 / ways, 1.0)
    # Splitting by rows gives a full result of partial sums; any other split gives a part of the result.
    written = kernels.written * np.where(by_rows, 1.0, part)
    weights = kernels.weights * part
    read = weights + (kernels.read - kernels.weights) * np.where(products & ~by_rows, 1.0, part)
    mine = replace(
        kernels,
        flops=kernels.flops * part,
        weights=weights,
        read=read,
        written=written,
        n=kernels.n * np.where(products & ~by_rows, part, 1.0),
        k=kernels.k * np.where(by_rows, part, 1.0),
        batches=kernels.batches * np.where(kernels.kind == _ATTENTION, part, 1.0),
        blocks=np.maximum(1.0, kernels.blocks * part),
        working_set=read + written,
    )
    order = np.sort(np.concatenate([np.arange(len(kernels)), np.flatnonzero(by_rows) + 0.5]))
    source = order.astype(np.int64)
    sums = order != source
    spread = joined([mine, _sums(mine, ways)]).take(np.where(sums, len(kernels) + source, source))
    return replace(
        request,
        kernels=spread,
        slot=request.slot[source],
        first_output=_moved(request.first_output, source),
        beside_ns=_at(request.beside_ns, source, sums),
        waiting_ns=_at(request.waiting_ns, source, sums),
        properties=_divided(request, ways),
    )


def _behind_attention(kernels: Kernels, products: Bools) -> Bools:
    """The first product with weights after each attention."""
    behind = np.zeros(len(kernels), np.bool_)
    positions = np.flatnonzero(products)
    after = np.searchsorted(positions, np.flatnonzero(kernels.kind == _ATTENTION), side="right")
    behind[positions[after[after < positions.size]]] = True
    return behind


def _sums(kernels: Kernels, ways: int) -> Kernels:
    """All-reduces after these kernels: a ring moves 2 (n - 1) / n of the result over each link."""
    zeros = np.zeros(len(kernels))
    moved = kernels.written * (2.0 * (ways - 1) / ways)
    return Kernels(
        names=("all_reduce",),
        name=np.zeros(len(kernels), np.int64),
        kind=np.full(len(kernels), ALL_REDUCE),
        dtype=kernels.dtype,
        tensor=np.zeros(len(kernels), np.bool_),
        flops=zeros,
        read=moved,
        weights=zeros,
        written=moved,
        m=zeros,
        n=zeros,
        k=zeros,
        batches=zeros + 2 * (ways - 1),
        blocks=zeros + 16.0,
        working_set=zeros,
        launches=np.ones(len(kernels), np.int64),
    )


def _at(values: Floats | float, source: np.ndarray[tuple[int], np.dtype[np.int64]], sums: Bools) -> Floats | float:
    return values if isinstance(values, float) else np.where(sums, 0.0, values[source])


def _moved(first_output: int, source: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
    return first_output if first_output < 0 else int(np.flatnonzero(source == first_output)[-1])


def _divided(request: RequestKernels, ways: int) -> Properties:
    properties = request.properties
    weights, peak = properties.weight_bytes, properties.peak_memory_bytes
    if weights is None or peak is None:
        return properties
    mine = weights // ways
    return replace(properties, weight_bytes=mine, peak_memory_bytes=mine + max(0, peak - weights))
