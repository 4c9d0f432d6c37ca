"""A request as the kernels that a GPU would run: one row each, kept as columns."""

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
"""What a kernel does, in the order of the codes in `Kernels.kind`.

A transfer is a copy between host and device; conv3x3 is a convolution of stride 1 that needs less arithmetic than it
says where no tensor cores do it (Winograd); weight_gradient is that of a convolution, a small product of very long
sums, which libraries split over many blocks; an activation is pointwise too, with a function that takes long; an
all_reduce adds up what several GPUs have, over their links.
"""

TRANSFER = KINDS.index("transfer")
ALL_REDUCE = KINDS.index("all_reduce")


@dataclass(frozen=True, slots=True)
class Kernels:
    """The kernels of one request in the order of their launch; every array has one entry per kernel."""

    names: tuple[str, ...]
    """Different names; `name` holds indices into it."""
    name: Ints
    kind: Ints
    """Index into `KINDS`."""
    dtype: Ints
    """Index into `catalogue.DTYPES`."""
    tensor: Bools
    """May run on tensor cores, if the GPU has them for this dtype (float32: as TF32)."""
    flops: Floats
    read: Floats
    """Bytes read, each once."""
    weights: Floats
    """How many of them are parameters or tables: nothing has just written them, so they come from DRAM."""
    written: Floats
    """Bytes written, each once."""
    m: Floats
    """Rows of each product that it computes (0: it isn't one)."""
    n: Floats
    """Columns of the product."""
    k: Floats
    """Length of the sums."""
    batches: Floats
    """Products that are independent of each other (heads, groups); of an all_reduce, its steps."""
    blocks: Floats
    """Thread blocks that can run at once: its parallelism."""
    working_set: Floats
    """Bytes that it uses again and again; what of it stays in L2 costs no DRAM traffic."""
    launches: Ints
    """Launches that the host makes for it."""

    def __len__(self) -> int:
        return len(self.name)

    def take(self, rows: npt.NDArray[np.int64] | slice) -> "Kernels":
        """Some of the kernels, or all in another order."""
        columns = {one.name: getattr(self, one.name)[rows] for one in fields(self) if one.name != "names"}
        return Kernels(names=self.names, **columns)


def joined(parts: Sequence[Kernels]) -> Kernels:
    """Several requests' kernels behind each other."""
    names = tuple(dict.fromkeys(name for part in parts for name in part.names))
    index = {name: number for number, name in enumerate(names)}
    renamed = [np.array([index[name] for name in part.names], dtype=np.int64)[part.name] for part in parts]
    others = [one.name for one in fields(Kernels) if one.name not in ("names", "name")]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in others}
    return Kernels(names=names, name=np.concatenate(renamed), **columns)
