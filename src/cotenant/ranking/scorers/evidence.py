"""LogME (You et al., ICML 2021): the evidence of a Bayesian linear model of the labels, at its best hyperparameters."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cotenant.ranking.protocol import Features, Labels
from cotenant.ranking.scorers.class_sums import class_sums

_ROUNDS = 100
_CLOSE = 1e-5
_TINY = 1e-12

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LogMe:
    """Mean log evidence per item, over classes, of a linear model of class membership."""

    name: str = "logme"
    about: str = "log evidence per item of a Bayesian linear model (LogME)"

    def score(self, features: Features, labels: Labels, *, classes: int, seed: int) -> float:  # noqa: ARG002  (nothing is drawn)
        """All classes at once: one decomposition of the features, one column per class."""
        items, width = features.shape
        strength, explained = _decomposed(features, labels, classes)
        positives = np.bincount(labels, minlength=classes).astype(np.float64)
        unexplained = np.maximum(positives - explained.sum(axis=0), 0.0)
        alpha, beta = _best(strength, explained, unexplained, items)
        ratio = alpha / beta
        weights = (strength[:, None] * explained / (ratio + strength[:, None]) ** 2).sum(axis=0)
        residue = (explained / (1 + strength[:, None] / ratio) ** 2).sum(axis=0) + unexplained
        evidence = (
            width / 2 * np.log(alpha)
            + items / 2 * np.log(beta)
            - 0.5 * np.log(alpha + beta * strength[:, None]).sum(axis=0)
            - 0.5 * (width - len(strength)) * np.log(alpha)
            - 0.5 * (beta * residue + alpha * weights)
            - items / 2 * np.log(2 * np.pi)
        )
        return float((evidence / items).mean())


def _decomposed(features: Features, labels: Labels, classes: int) -> tuple[Floats, Floats]:
    """Squared singular values, and each class's (squared) projection on each direction."""
    items, width = features.shape
    exact = features.astype(np.float64)
    if width <= items:
        values, directions = np.linalg.eigh(exact.T @ exact)
        along = directions.T @ class_sums(exact, labels, classes).T
        kept = values > values[-1] * _TINY
        return values[kept], along[kept] ** 2 / values[kept, None]
    values, directions = np.linalg.eigh(exact @ exact.T)
    kept = values > values[-1] * _TINY
    return values[kept], class_sums(directions[:, kept], labels, classes).T ** 2


def _best(strength: Floats, explained: Floats, unexplained: Floats, items: int) -> tuple[Floats, Floats]:
    """Precision of the weights and of the noise, by MacKay's fixed point, for each class."""
    alpha, beta = np.ones(explained.shape[1]), np.ones(explained.shape[1])
    for _ in range(_ROUNDS):
        ratio = alpha / beta
        shrunk = strength[:, None] / (strength[:, None] + ratio)
        used = shrunk.sum(axis=0)
        weights = (strength[:, None] * explained / (ratio + strength[:, None]) ** 2).sum(axis=0)
        residue = (explained * (1 - shrunk) ** 2).sum(axis=0) + unexplained
        alpha = used / np.maximum(weights, _TINY)
        beta = (items - used) / np.maximum(residue, _TINY)
        if np.all(np.abs(alpha / beta - ratio) <= _CLOSE * ratio):
            break
    return alpha, beta
