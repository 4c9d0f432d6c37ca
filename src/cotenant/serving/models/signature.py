"""Inputs and outputs of a served model, as stated by the protocols. Needs no torch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cotenant.errors import BadInput
from cotenant.serving.processes.parcel import Parcel, Tensor
from cotenant.text import did_you_mean


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
        fits = len(tensor.shape) == len(self.shape) and all(
            size > 0 and wanted in (-1, size) for size, wanted in zip(tensor.shape, self.shape, strict=True)
        )
        if not fits:
            raise BadInput(
                f"The input {self.name} must be of shape {list(self.shape)}, not {list(tensor.shape)}.",
                hint="-1 stands for any size above 0.",
            )


@dataclass(frozen=True, slots=True)
class Signature:
    """The tensors of one model. A decoder (``decodes``) maps tokens to tokens."""

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
        known = {spec.name: spec for spec in self.inputs}
        names = [tensor.name for tensor in parcel.tensors]
        for tensor in parcel.tensors:
            if tensor.name not in known:
                raise BadInput(
                    f"There is no input {tensor.name!r}; there are {', '.join(known)}.",
                    hint=did_you_mean(tensor.name, known),
                )
            if names.count(tensor.name) > 1:
                raise BadInput(f"The input {tensor.name} was sent twice.")
            known[tensor.name].check(tensor)
        for spec in self.inputs:
            if spec.name not in names and not spec.optional:
                raise BadInput(f"The input {spec.name} is missing.")
        by_name = {tensor.name: tensor for tensor in parcel.tensors}
        ids, mask = by_name.get("input_ids"), by_name.get("attention_mask")
        if ids is not None and self.longest is not None and ids.shape[1] > self.longest:
            raise BadInput(f"The model takes at most {self.longest} tokens, not {ids.shape[1]}.")
        if ids is not None and mask is not None and ids.shape != mask.shape:
            raise BadInput(f"attention_mask is {list(mask.shape)}, but input_ids is {list(ids.shape)}.")

    def check_prompt(self, ids: tuple[int, ...], tokens: int) -> None:
        """Reject a prompt the decoder can't read. Raises BadInput."""
        if not ids:
            raise BadInput("The prompt is empty.")
        if self.longest is not None and len(ids) + tokens > self.longest:
            asked = f"{len(ids)} of the prompt and {tokens} new"
            raise BadInput(f"The model takes at most {self.longest} tokens, and {asked} are more.")
        if self.vocabulary is not None and not all(0 <= one < self.vocabulary for one in ids):
            raise BadInput(f"Token ids have to lie between 0 and {self.vocabulary - 1}.")

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def signature_in(data: Mapping[str, Any]) -> Signature:
    """The signature that `Signature.to_json` wrote."""

    def specs(entries: Any) -> tuple[TensorSpec, ...]:
        return tuple(TensorSpec(**{**entry, "shape": tuple(entry["shape"])}) for entry in entries)

    return Signature(**{**data, "inputs": specs(data["inputs"]), "outputs": specs(data["outputs"])})
