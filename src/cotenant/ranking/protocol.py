"""The words of model search: data to rank by, scorers that rank. Plain protocols, no torch at import time."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Features = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Tested = npt.NDArray[np.float64]
"""For each item whether it was named rightly (1) or not (0) by what was learnt from others; nan: it was not tested."""
Kind = Literal["image", "text"]


class Data(Protocol):
    """Labelled items that a model can be fed with."""

    @property
    def name(self) -> str:
        """What the user calls it, or its path."""
        ...

    @property
    def kind(self) -> Kind:
        """Which models can read it."""
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
        """Changes when any item or label changes: what was computed from it can be told from what was not."""
        ...

    def __len__(self) -> int:
        """How many items there are."""
        ...

    def load(self, indices: Sequence[int], shape: Mapping[str, Any]) -> Mapping[str, Any]:
        """The inputs of one batch as host tensors: images decoded and scaled, texts as tokens.

        Args:
            indices: Which items.
            shape: What the model wants: `{"image": 224}`, or `{"tokens": 128, "vocabulary": directory or None}`.

        Raises:
            DataError: An item can't be read; the sentence names it.
        """
        ...


class Scorer(Protocol):
    """Says how well features separate the classes. Higher is better."""

    @property
    def name(self) -> str:
        """As the command line knows it."""
        ...

    def score(self, features: Features, labels: Labels, *, classes: int, seed: int) -> float:
        """The score of these features; the same inputs give the same score."""
        ...


@runtime_checkable
class ItemScorer(Scorer, Protocol):
    """A scorer that tests items one by one, so that candidates can be compared item by item."""

    def tested(self, features: Features, labels: Labels, *, classes: int, seed: int) -> Tested:
        """Every item held back once, in folds that are the same for every candidate."""
        ...
