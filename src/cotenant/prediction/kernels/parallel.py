"""A request cut over several GPUs of one kind (tensor parallelism), as one of them sees it.

Layers come in pairs: the first of a pair is cut by its columns, the second by its rows, after which the GPUs add up
what each of them has. The second is the product behind attention, and the one that narrows back to the model's width.
Norms, residuals and embeddings are done by every GPU. Nothing measured stands behind it: the errors are not known.
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
    """The part of a request that one of this many GPUs does, with the sums that they exchange."""
    kernels = request.kernels
    products = (kernels.kind == _GEMM) & (kernels.weights > 0)
    behind = _behind_attention(kernels, products)
    width = np.unique(kernels.n[behind])
    by_rows = behind | (products & (kernels.k > kernels.n) & np.isin(kernels.n, width))
    cut = products | np.isin(kernels.kind, (_ATTENTION, _ACTIVATION))
    part = np.where(cut, 1.0 / ways, 1.0)
    # What is cut by rows gives a whole result of partial sums; everything else that is cut gives a part of it.
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
    """Behind each kernel, the exchange of its result: a ring moves 2 (n - 1) / n of it over each link."""
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
