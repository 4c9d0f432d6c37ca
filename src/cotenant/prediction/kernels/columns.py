"""A request as the kernels a GPU would run, in columns."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

KINDS = (
    "gemm",
    "conv",
    "depthwise",
    "attention",
    "elementwise",
    "reduction",
    "copy",
    "gather",
    "transfer",
    "conv3x3",
    "weight_gradient",
    "activation",
    "all_reduce",
)
"""Kinds of kernels, in the order of the codes in `Kernels.kind`.

A transfer is a copy between host and device. conv3x3 is a convolution of stride 1, which needs less arithmetic than
nominal without tensor cores (Winograd). weight_gradient is that of a convolution: a small product with very long sums
that libraries split over many blocks. An activation is pointwise with an expensive function. An all_reduce sums over
several GPUs via their links.
"""

TRANSFER = KINDS.index("transfer")
ALL_REDUCE = KINDS.index("all_reduce")


@dataclass(frozen=True, slots=True)
class Kernels:
    """The kernels of a request in launch order; every array has an entry per kernel."""

    names: tuple[str, ...]
    """Distinct names; `name` holds indices into it."""
    name: Ints
    kind: Ints
    """Index into `KINDS`."""
    dtype: Ints
    """Index into `catalogue.DTYPES`."""
    tensor: Bools
    """Whether it may run on tensor cores, if the GPU has them for this dtype (float32: as TF32)."""
    flops: Floats
    read: Floats
    """Bytes read, counted once."""
    weights: Floats
    """Bytes of parameters or tables among them: not recently written, so read from DRAM."""
    written: Floats
    """Bytes written, counted once."""
    m: Floats
    """Rows of each matrix product; 0 for other kernels."""
    n: Floats
    """Columns of the product."""
    k: Floats
    """Length of the sums."""
    batches: Floats
    """Independent products (heads, groups); for an all_reduce, its steps."""
    blocks: Floats
    """Thread blocks that can run at once."""
    working_set: Floats
    """Bytes that are reused; the part that stays in L2 causes no DRAM traffic."""
    launches: Ints
    """Number of launches by the host."""

    def __len__(self) -> int:
        return len(self.name)

    def take(self, rows: npt.NDArray[np.int64] | slice) -> "Kernels":
        """Select or reorder kernels."""
        columns = {field.name: getattr(self, field.name)[rows] for field in fields(self) if field.name != "names"}
        return Kernels(names=self.names, **columns)


def joined(parts: Sequence[Kernels]) -> Kernels:
    """Concatenate the kernels of several requests."""
    names = tuple(dict.fromkeys(name for part in parts for name in part.names))
    index = {name: number for number, name in enumerate(names)}
    renamed = [np.array([index[name] for name in part.names], dtype=np.int64)[part.name] for part in parts]
    others = [field.name for field in fields(Kernels) if field.name not in ("names", "name")]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in others}
    return Kernels(names=names, name=np.concatenate(renamed), **columns)
