"""The inputs of a model behind the Open Inference Protocol: random tensors with the shapes in its metadata."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import Field

from cotenant.errors import WorkloadError
from cotenant.workloads.protocol import WorkloadSpec
from cotenant.workloads.servers.client import ServerOptions

DEFAULT_SIZE = 8
LARGEST_INPUT = 1 << 28
_TYPES: Mapping[str, Any] = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
}
_TEXT = "BYTES"


class V2Options(ServerOptions):
    """The model, and its inputs' shapes where the metadata leaves them open."""

    model: str | None = None
    version: str | None = None
    shapes: dict[str, list[int]] = Field(default_factory=dict)
    """By input; default: the metadata's, with `batch` first and `seq` (else 8) where it says -1."""
    largest: int = Field(default=100, ge=1)
    """Integers are drawn from 0 up to this: tokens must exist in the model's vocabulary."""
    binary: bool | None = None
    """Binary tensors instead of JSON; None for binary if the server supports it."""


@dataclass(frozen=True, slots=True)
class Input:
    """One input tensor, sent every time."""

    name: str
    datatype: str
    values: np.ndarray

    def as_json(self) -> dict[str, Any]:
        """With its data in the document."""
        return {**self._head(), "data": self.values.ravel().tolist()}

    def as_bytes(self) -> tuple[dict[str, Any], bytes]:
        """Its entry in the document, with the data after it."""
        data = self.data()
        return {**self._head(), "parameters": {"binary_data_size": len(data)}}, data

    def data(self) -> bytes:
        """Its elements in sequence; text with a length prefix each."""
        if self.datatype != _TEXT:
            return self.values.tobytes()
        texts = [str(text).encode() for text in self.values.ravel()]
        return b"".join(struct.pack("<I", len(text)) + text for text in texts)

    def _head(self) -> dict[str, Any]:
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.values.shape)}


def inputs_of(name: str, described: Mapping[str, Any], spec: WorkloadSpec, options: V2Options) -> tuple[Input, ...]:
    """Random tensors with the shapes in the metadata, from the seed.

    Raises:
        WorkloadError: A type is unknown, a shape does not fit, or an input is too large.
    """
    random = np.random.default_rng(spec.seed)
    inputs = []
    for declared in described["inputs"]:
        datatype, label = str(declared.get("datatype")), str(declared.get("name"))
        if datatype not in _TYPES and datatype != _TEXT:
            raise WorkloadError(f"`{name}`: input `{label}` has the type {datatype}, which is not supported")
        shape = _shape(label, [int(size) for size in declared.get("shape", ())], spec, options)
        if int(np.prod(shape)) > LARGEST_INPUT:
            raise WorkloadError(f"`{name}`: input `{label}` of shape {shape} is too large", hint="give `shapes`")
        inputs.append(Input(label, datatype, _values(random, datatype, shape, options.largest)))
    unknown = sorted(set(options.shapes) - {tensor.name for tensor in inputs})
    if unknown:
        raise WorkloadError(
            f"`{name}` has no input `{unknown[0]}`", hint=f"it has {', '.join(one.name for one in inputs)}"
        )
    return tuple(inputs)


def _shape(label: str, declared: list[int], spec: WorkloadSpec, options: V2Options) -> tuple[int, ...]:
    if label in options.shapes:
        return tuple(options.shapes[label])
    return tuple(
        size if size >= 0 else spec.batch if place == 0 else spec.seq or DEFAULT_SIZE
        for place, size in enumerate(declared)
    )


def _values(random: np.random.Generator, datatype: str, shape: tuple[int, ...], largest: int) -> np.ndarray:
    if datatype == _TEXT:
        return np.array([f"text {number}" for number in random.integers(0, largest, int(np.prod(shape)))]).reshape(
            shape
        )
    kind = np.dtype(_TYPES[datatype])
    if kind.kind == "f":
        return random.random(shape).astype(kind)
    return random.integers(0, 2 if kind.kind == "b" else min(largest, 127), shape).astype(kind)
