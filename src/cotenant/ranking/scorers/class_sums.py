"""Sums over the items of each class."""

import numpy as np
import numpy.typing as npt

from cotenant.ranking.protocol import Labels

Floats = npt.NDArray[np.float64]


def class_sums(values: Floats, labels: Labels, classes: int) -> Floats:
    """Classes x columns; a class without items has zeros."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels, minlength=classes)
    present = np.flatnonzero(sizes)
    starts = (np.cumsum(sizes) - sizes)[present]
    sums = np.zeros((classes, values.shape[1]))
    sums[present] = np.add.reduceat(values[order], starts, axis=0)
    return sums
