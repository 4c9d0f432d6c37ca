"""Tensors as the protocols know them, and a model's signature: its inputs and outputs. Needs no torch."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from cotenant.errors import BadInput
from cotenant.text import did_you_mean

# Tensors passed between processes: names, types, shapes and bytes. Needs no torch.

SIZES = {
    "BOOL": 1, "UINT8": 1, "INT8": 1, "UINT16": 2, "INT16": 2, "FP16": 2, "BF16": 2, "UINT32": 4, "INT32": 4, "FP32": 4,
    "UINT64": 8, "INT64": 8, "FP64": 8,
}  # fmt: skip
"""Bytes of a number, by its name in the Open Inference Protocol."""


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
    """The tensors of a request, or of its answer."""

    tensors: tuple[Tensor, ...]

    @property
    def size(self) -> int:
        """Bytes of all tensors."""
        return sum([len(tensor.data) for tensor in self.tensors])


def label(parcel: Parcel) -> list[Any]:
    """Description of a parcel whose bytes are sent separately."""
    return [[tensor.name, tensor.datatype, list(tensor.shape)] for tensor in parcel.tensors]


def unpack(labels: Iterable[Sequence[Any]], data: "bytes | memoryview") -> Parcel:
    """The parcel of a label and its bytes, without copying."""
    view, at, tensors = memoryview(data), 0, []
    for name, datatype, shape in labels:
        size = math.prod(shape) * SIZES[datatype]
        tensors.append(Tensor(name, datatype, tuple(shape), view[at : at + size]))
        at += size
    return Parcel(tuple(tensors))


TOO_LONG = "context_length_exceeded"
"""OpenAI's code of the error."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output; -1 is a free dimension."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    optional: bool = False

    def check(self, tensor: Tensor) -> None:
        """Reject a tensor of another type or shape. Raises BadInput."""
        if tensor.datatype != self.datatype:
            raise BadInput(f"The input {self.name} must be {self.datatype}, not {tensor.datatype}.")
        fits = len(tensor.shape) == len(self.shape)
        if fits:
            for size, expected in zip(tensor.shape, self.shape, strict=True):
                fits = fits and size > 0 and expected in (-1, size)
        if not fits:
            raise BadInput(
                f"The input {self.name} must be of shape {list(self.shape)}, not {list(tensor.shape)}.",
                hint="-1 stands for any size above 0.",
            )


@dataclass(frozen=True, slots=True)
class Signature:
    """The tensors of a model. A decoder (``decodes``) maps tokens to tokens."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    decodes: bool = False
    vocabulary: int | None = None
    longest: int | None = None
    """Maximum tokens of an item, prompt and answer together."""
    embeds: bool = False
    typical: int = 1
    """Tokens of the measured request."""
    cache_bytes: int = 0
    """Memory of a decoder's cache per token."""

    def check(self, parcel: Parcel) -> None:
        """Reject invalid inputs before anything is queued. Raises BadInput."""
        by_name = {tensor.name: tensor for tensor in parcel.tensors}
        missing, known = None, 0
        for spec in self.inputs:
            tensor = by_name.get(spec.name)
            if tensor is not None:
                spec.check(tensor)
                known += 1
            elif not spec.optional:
                missing = missing or spec.name
        if known < len(parcel.tensors):
            raise self._superfluous(parcel)
        if missing is not None:
            raise BadInput(f"The input {missing} is missing.")
        ids, mask = by_name.get("input_ids"), by_name.get("attention_mask")
        if ids is not None and self.longest is not None and ids.shape[1] > self.longest:
            raise BadInput(f"The model takes at most {self.longest} tokens, not {ids.shape[1]}.", code=TOO_LONG)
        if ids is not None and mask is not None and ids.shape != mask.shape:
            raise BadInput(f"attention_mask is {list(mask.shape)}, but input_ids is {list(ids.shape)}.")

    def _superfluous(self, parcel: Parcel) -> BadInput:
        """The error of a tensor that is unknown or comes twice."""
        names = [spec.name for spec in self.inputs]
        for tensor in parcel.tensors:
            if tensor.name not in names:
                there = f"There is no input {tensor.name!r}; there are {', '.join(names)}."
                return BadInput(there, hint=did_you_mean(tensor.name, names, begin="Did"))
        sent = [tensor.name for tensor in parcel.tensors]
        return BadInput(f"The input {max(sent, key=sent.count)} was sent twice.")

    def check_prompt(self, ids: Sequence[int], tokens: int, *, param: str | None = None) -> None:
        """Reject a prompt the decoder can't read; ``param`` is its field. Raises BadInput."""
        if not ids:
            raise BadInput("The prompt is empty.", param=param)
        if self.longest is not None and len(ids) + tokens > self.longest:
            asked = f"{len(ids)} of the prompt and {tokens} new"
            raise BadInput(f"The model takes at most {self.longest} tokens, and {asked} are more.", code=TOO_LONG)
        self.check_ids(ids, param=param)

    def check_ids(self, ids: Sequence[int], *, param: str | None = None) -> None:
        """Reject token ids that the model doesn't have. Raises BadInput."""
        most = 2**31 if self.vocabulary is None else self.vocabulary
        if ids and not (min(ids) >= 0 and max(ids) < most):
            raise BadInput(f"Token ids have to lie between 0 and {most - 1}.", param=param)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def signature_in(data: Mapping[str, Any]) -> Signature:
    """The signature that `Signature.to_json` wrote."""

    def specs(entries: Any) -> tuple[TensorSpec, ...]:
        return tuple(TensorSpec(**{**entry, "shape": tuple(entry["shape"])}) for entry in entries)

    return Signature(**{**data, "inputs": specs(data["inputs"]), "outputs": specs(data["outputs"])})
