"""Scores from the spread of features between and within classes: H-score and TransRate."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cotenant.ranking.protocol import Features, Labels
from cotenant.ranking.scorers.class_sums import class_sums

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
