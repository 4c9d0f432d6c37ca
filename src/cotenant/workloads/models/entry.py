"""A model's catalogue entry: pure data, readable without torch."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from cotenant.errors import WorkloadError
from cotenant.workloads.protocol import WorkloadSpec

Family = Literal["encoder", "decoder", "seq2seq", "vision", "recommender"]

DECODER_MODES = ("forward", "prefill", "decode", "generate")


@dataclass(frozen=True, slots=True)
class Architecture:
    """Where a model's code is: a module, its configuration class, and a class per mode."""

    module: str
    config: str
    classes: Mapping[str, str]
    """Class by mode, the default mode first."""
    trains: str | None = None
    """The mode whose class a training step uses; None if training is not offered."""
    model_type: str | None = None
    """Its `model_type` in the `config.json` of a directory with its weights; None if it takes no weights."""
    blocks: int | None = None
    """Number of blocks at every size, where the configuration doesn't say."""


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model of the catalogue, at a size."""

    name: str
    family: Family
    about: str
    architecture: Architecture
    config: Mapping[str, Any]
    """Arguments of the configuration class, as published by the model's authors."""
    mini: Mapping[str, Any] = field(default_factory=dict)
    """Smaller values for the small sibling."""
    params: int | None = None
    """The published number of parameters; small siblings have none."""
    counted: str = ""
    """What the number includes: heads, poolers, tied weights."""
    source: str = ""
    """Where it was published."""
    seq: int | None = None
    """Default tokens per item."""
    max_seq: int | None = None
    image: int | None = None
    """Side of the square input image, pixels."""
    mini_seq: int | None = None
    mini_image: int | None = None
    mini_of: str | None = None
    folder: str | None = None
    """The directory it was found in, for a user's own."""
    weights: str | None = None
    """The directory with its weights; None for random ones, unless the tenant names some."""

    def __hash__(self) -> int:
        """By name: configurations can't be hashed."""
        return hash(self.name)

    @property
    def modes(self) -> tuple[str, ...]:
        """Its modes, the default first."""
        return tuple(self.architecture.classes)

    def small(self) -> "ModelEntry":
        """The `-mini` sibling: the same architecture with small dimensions."""
        return replace(
            self,
            name=f"{self.name}-mini",
            about=f"small sibling of {self.name}",
            config={**self.config, **self.mini},
            mini={},
            params=None,
            counted="",
            source="",
            seq=self.mini_seq,
            max_seq=self.config_limit(),
            image=self.mini_image,
            mini_of=self.name,
        )

    def config_limit(self) -> int | None:
        """The longest sequence the small sibling accepts."""
        return None if self.max_seq is None else min(self.max_seq, 512)


def shape(width: int, layers: int, heads: int, inner: int, keys: int | None = None) -> dict[str, Any]:
    """Dimensions of a transformer, with the number of heads of keys and values where there are fewer."""
    shared = {} if keys is None else {"num_key_value_heads": keys}
    return {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": inner,
    } | shared


def mode_of(entry: ModelEntry, spec: WorkloadSpec) -> str:
    """The mode that runs; training has its own."""
    if spec.train and entry.architecture.trains:
        return entry.architecture.trains
    return spec.mode or entry.modes[0]


# `layers`, and the number of blocks it means.

_LAST = re.compile(r"^last\s+(\d+(?:\.\d+)?)\s*(%?)$")
FORMS = "full, last 3 or last 50%"


def kept(layers: str, blocks: int) -> int:
    """Number of a model's blocks that stay."""
    if layers == "full":
        return blocks
    match = _LAST.match(layers)
    if match is None:
        raise WorkloadError(f"layers {layers!r} is invalid", hint=f"write {FORMS}")
    number, percent = float(match.group(1)), match.group(2) == "%"
    if percent and not 0 < number <= 100:
        raise WorkloadError(f"layers {layers!r}: a share is above 0 % and at most 100 %", hint=f"write {FORMS}")
    count = max(1, round(blocks * number / 100)) if percent else int(number)
    if not percent and (count != number or not 1 <= count <= blocks):
        raise WorkloadError(f"layers {layers!r}: the model has {blocks} blocks", hint=f"keep from 1 to {blocks}")
    return count


def block_count(entry: ModelEntry) -> int | None:
    """Number of blocks in a model, from its configuration; None if it has no chain of them."""
    for key in ("num_hidden_layers", "n_layer", "n_layers"):
        if key in entry.config:
            return int(entry.config[key])
    if "depths" in entry.config:
        return int(sum(entry.config["depths"]))
    if "parts" in entry.config:
        return int(sum(blocks for *_, blocks in entry.config["parts"]))
    return entry.architecture.blocks
