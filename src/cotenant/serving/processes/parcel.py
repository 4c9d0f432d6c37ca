"""Tensors passed between processes: names, types, shapes and bytes. Needs no torch."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

SIZES = {
    "BOOL": 1, "UINT8": 1, "INT8": 1, "UINT16": 2, "INT16": 2, "FP16": 2, "BF16": 2, "UINT32": 4, "INT32": 4, "FP32": 4,
    "UINT64": 8, "INT64": 8, "FP64": 8,
}  # fmt: skip
"""Bytes of one number, by its name in the Open Inference Protocol."""


class Tensor(NamedTuple):
    """A dense tensor in row-major order."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: "bytes | bytearray | memoryview"

    @property
    def rows(self) -> int:
        """Its first dimension."""
        return self.shape[0] if self.shape else 1


class Parcel(NamedTuple):
    """The tensors of one request, or of its answer."""

    tensors: tuple[Tensor, ...]

    @property
    def size(self) -> int:
        """Bytes of all tensors."""
        return sum(len(tensor.data) for tensor in self.tensors)


def label(parcel: Parcel) -> list[Any]:
    """Description of a parcel whose bytes are sent separately."""
    return [[one.name, one.datatype, list(one.shape)] for one in parcel.tensors]


def unpack(labels: Iterable[Sequence[Any]], data: "bytes | memoryview") -> Parcel:
    """The parcel of a label and its bytes, without copying."""
    view, at, tensors = memoryview(data), 0, []
    for name, datatype, shape in labels:
        size = math.prod(shape) * SIZES[datatype]
        tensors.append(Tensor(name, datatype, tuple(shape), view[at : at + size]))
        at += size
    return Parcel(tuple(tensors))
