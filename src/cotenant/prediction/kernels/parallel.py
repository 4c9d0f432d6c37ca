"""One GPU's part of a request split over several GPUs of one model (tensor parallelism).

Layers come in pairs: the first of a pair is split by columns, the second by rows, followed by an all-reduce. The second
is the product after attention, and the one that narrows back to the model's width. Norms, residuals and embeddings are
replicated on every GPU. Not validated: the errors are unknown.
"""

from dataclasses import replace

import numpy as np

from cotenant.prediction.kernels.columns import ALL_REDUCE, KINDS, Bools, Floats, Kernels, joined
from cotenant.prediction.kernels.request import RequestKernels
from cotenant.workloads.protocol import Properties

_GEMM = KINDS.index("gemm")
_ATTENTION = KINDS.index("attention")
_ACTIVATION = KINDS.index("activation")


def parallel(request: RequestKernels, ways: int) -> RequestKernels:
    """One of this many GPUs' part of a request, including all-reduces."""
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
    found = np.zeros(len(kernels), np.bool_)
    places = np.flatnonzero(products)
    after = np.searchsorted(places, np.flatnonzero(kernels.kind == _ATTENTION), side="right")
    found[places[after[after < places.size]]] = True
    return found


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
