"""Scores without training.

H-score and TransRate: the spread of features between and within classes. LogME: the evidence of a linear model of the
labels. LEEP and NCE: the output of a model's own head on the new items.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cotenant.ranking.protocol import Features, Labels

DISTORTION = 1e-4
"""TransRate's precision of coding, as published."""
_TINY = 1e-10
_BATCH_BYTES = 64 << 20

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HScore:
    """Spread between class means relative to the spread of all features (Bao et al., 2019).

    The covariance is shrunk towards a multiple of the identity (Ledoit and Wolf, 2004; Ibrahim et al., 2022): with
    more features than items the plain score would be the number of classes minus one, whatever the features.
    """

    name: str = "hscore"
    about: str = "spread between classes over all spread, regularised (H-score)"

    def score(self, features: Features, labels: Labels, *, classes: int, seed: int) -> float:  # noqa: ARG002  (nothing is drawn)
        """Trace of (shrunk covariance of features)^-1 times (covariance of their class means), minus the shrinkage."""
        exact = features.astype(np.float64)
        centred = exact - exact.mean(axis=0)
        items = len(centred)
        sizes = np.bincount(labels, minlength=classes)
        # Each mean, weighted by the root of its class's share.
        means = class_sums(centred, labels, classes) / np.sqrt(np.maximum(sizes, 1) * items)[:, None]
        values, directions = np.linalg.eigh(centred.T @ centred / items)
        size = float(values.mean())
        apart = float(((values - size) ** 2).sum())
        noise = (float(((centred**2).sum(axis=1) ** 2).sum()) / items - float((values**2).sum())) / items
        shrinkage = min(1.0, noise / apart) if apart > 0 else 1.0
        strength = (1 - shrinkage) * np.maximum(values, 0.0) + shrinkage * size
        kept = strength > _TINY * max(size, _TINY)
        along = means @ directions[:, kept]
        return float((1 - shrinkage) * (along**2 / strength[kept]).sum())


@dataclass(frozen=True, slots=True)
class TransRate:
    """Coding cost of the features saved by knowing the class (Huang et al., ICML 2022)."""

    name: str = "transrate"
    about: str = "coding rate of all features minus that within classes (TransRate)"

    def score(self, features: Features, labels: Labels, *, classes: int, seed: int) -> float:  # noqa: ARG002  (nothing is drawn)
        """Rate of all items, minus the rates of the classes weighted by their sizes."""
        exact = features.astype(np.float64)
        exact -= exact.mean(axis=0)
        sizes = np.bincount(labels, minlength=classes)
        ordered = exact[np.argsort(labels, kind="stable")]
        starts = np.cumsum(sizes) - sizes
        within = 0.0
        for size in np.unique(sizes[sizes > 0]):
            # Classes of equal size are one batch of small matrices.
            same = starts[sizes == size]
            step = max(1, _BATCH_BYTES // (8 * int(size) * (exact.shape[1] + int(size))))
            for first in range(0, len(same), step):
                rows = same[first : first + step, None] + np.arange(size)
                within += float(size) * float(_rates(ordered[rows]).sum())
        return float(_rates(exact[None])[0]) - within / len(labels)


def _rates(groups: Floats) -> Floats:
    """Half the log determinant of (identity + products / (items x distortion)), of each group of items."""
    _, items, width = groups.shape
    turned = groups.swapaxes(1, 2)
    products = groups @ turned if items <= width else turned @ groups  # the same determinant, the smaller matrix
    products *= 1 / (items * DISTORTION)
    products[:, np.arange(products.shape[1]), np.arange(products.shape[1])] += 1
    logs: Floats = np.linalg.slogdet(products)[1]
    return 0.5 * logs


def class_sums(values: Floats, labels: Labels, classes: int) -> Floats:
    """Classes x columns; a class without items has zeros."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels, minlength=classes)
    present = np.flatnonzero(sizes)
    starts = (np.cumsum(sizes) - sizes)[present]
    sums = np.zeros((classes, values.shape[1]))
    sums[present] = np.add.reduceat(values[order], starts, axis=0)
    return sums


_ROUNDS = 100
_CLOSE = 1e-5
_LEAST = 1e-12


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
        kept = values > values[-1] * _LEAST
        return values[kept], along[kept] ** 2 / values[kept, None]
    values, directions = np.linalg.eigh(exact @ exact.T)
    kept = values > values[-1] * _LEAST
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
        alpha = used / np.maximum(weights, _LEAST)
        beta = (items - used) / np.maximum(residue, _LEAST)
        if np.all(np.abs(alpha / beta - ratio) <= _CLOSE * ratio):
            break
    return alpha, beta


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
