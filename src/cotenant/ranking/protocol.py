"""Protocols and settings of model search: data to rank by, and scorers. No torch at import time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Features = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Tested = npt.NDArray[np.float64]
"""For each item, whether it was classified correctly (1) or not (0) by a model of the others; nan if not tested."""
Kind = Literal["image", "text"]


class Data(Protocol):
    """Labelled items as model inputs."""

    @property
    def name(self) -> str:
        """The user's name for it, or its path."""
        ...

    @property
    def kind(self) -> Kind:
        """The kind of models that can read it."""
        ...

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of their labels."""
        ...

    @property
    def labels(self) -> Labels:
        """One label per item."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes when any item or label changes, to tell stale results."""
        ...

    def __len__(self) -> int:
        """Number of items."""
        ...

    def load(self, indices: Sequence[int], shape: Mapping[str, Any]) -> Mapping[str, Any]:
        """The inputs of one batch as host tensors: images decoded and scaled, texts as tokens.

        Args:
            indices: The items.
            shape: The model's input form: `{"image": 224}`, or `{"tokens": 128, "vocabulary": directory or None}`.

        Raises:
            DataError: An item can't be read; the message names it.
        """
        ...


class Scorer(Protocol):
    """Measures how well features separate the classes. Higher is better."""

    @property
    def name(self) -> str:
        """Its name on the command line."""
        ...

    def score(self, features: Features, labels: Labels, *, classes: int, seed: int) -> float:
        """The score of these features; the same inputs give the same score."""
        ...


@runtime_checkable
class ItemScorer(Scorer, Protocol):
    """A scorer that tests items individually, so that candidates can be compared item by item."""

    def tested(self, features: Features, labels: Labels, *, classes: int, seed: int) -> Tested:
        """Test every item once, in folds that are the same for every candidate."""
        ...


DEFAULT_MEMORY = 4 * 10**9
DEFAULT_TOP = 10


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Everything that determines what a search computes; kept in its folder, so that it can be resumed."""

    data: str
    models: tuple[str, ...]
    scorer: str = "linear"
    budget_s: float | None = None
    memory_bytes: int = DEFAULT_MEMORY
    exact: bool = False
    device: str = "cpu"
    skip_bad: bool = False
    top: int = DEFAULT_TOP
    """Number of entries of the ranking with an interval and a line in the table."""
    seed: int = 0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "SearchSettings":
        """From plain data."""
        return cls(**{**data, "models": tuple(data["models"])})
