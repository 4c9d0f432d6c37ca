"""Scores from the output of a model's own head on the new items: LEEP and NCE. They take its logits as features."""

from dataclasses import dataclass

import numpy as np

from cotenant.ranking.protocol import Features, Labels
from cotenant.ranking.scorers.class_sums import class_sums

_NEVER = 1e-300


@dataclass(frozen=True, slots=True)
class Leep:
    """Mean log likelihood of the labels through the head's classes (Nguyen et al., ICML 2020)."""

    name: str = "leep"
    about: str = "log likelihood of the labels through the classes of the model's own head (LEEP)"
    takes: str = "logits"

    def score(self, features: Features, labels: Labels, *, classes: int, seed: int) -> float:  # noqa: ARG002  (nothing is drawn)
        """From the head's logits."""
        shifted = np.exp(features.astype(np.float64) - features.max(axis=1, keepdims=True))
        belief = shifted / shifted.sum(axis=1, keepdims=True)
        joint = class_sums(belief, labels, classes)
        given = joint / np.maximum(joint.sum(axis=0), _NEVER)
        # Each item only needs the row of its own class: never items x classes.
        likelihood = np.einsum("iz,iz->i", belief, given[labels])
        return float(np.log(np.maximum(likelihood, _NEVER)).mean())


@dataclass(frozen=True, slots=True)
class Nce:
    """Negative conditional entropy of the labels given the head's choice (Tran et al., ICCV 2019)."""

    name: str = "nce"
    about: str = "negative entropy of the labels given the class that the model's own head chooses (NCE)"
    takes: str = "logits"

    def score(self, features: Features, labels: Labels, *, classes: int, seed: int) -> float:  # noqa: ARG002  (nothing is drawn)
        """From the head's logits."""
        chosen = features.argmax(axis=1)
        pairs, counts = np.unique(chosen * classes + labels, return_counts=True)
        totals = np.bincount(chosen)[pairs // classes]
        return float((counts * np.log(counts / totals)).sum() / len(labels))
