"""A request with quantised weights.

Embeddings and the language-model head are not quantised, as in common checkpoints. `fp8` and `int8` round both sides of
a product if the GPU's tensor cores support the format. Otherwise, and with `int4`, only the weights are rounded, and
are widened again on the way to the tensor cores.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cotenant.prediction.gpu import DTYPES, GpuSpec
from cotenant.prediction.kernels.columns import KINDS, Bools, Kernels
from cotenant.prediction.kernels.request import RequestKernels
from cotenant.workloads.protocol import Operator, Properties, Quantised

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
    shapes = {one.shapes[0] for one in operators if one.name.endswith("embedding") and one.shapes}
    return {(shape[0], shape[1]) for shape in shapes if len(shape) == 2}


def _has_cores(gpu: GpuSpec, how: Quantised) -> bool:
    major, minor = (int(part) for part in gpu.compute_capability.split("."))
    return gpu.tensor_rate("int8") is not None and (how == "int8" or (major, minor) >= _FP8_FROM)


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
