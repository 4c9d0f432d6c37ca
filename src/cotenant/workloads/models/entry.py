"""A model's catalogue entry: pure data, readable without torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

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
    """One model of the catalogue, at one size."""

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
