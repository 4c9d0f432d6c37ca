"""Splits items into training and test sets: the same for every candidate, every class in both."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from cotenant.ranking.protocol import Labels

TESTED = 0.25
"""Share of each class that is tested; at least one item."""

FOLDS = 4
"""Number of folds, each tested once after training on the others."""

Positions = npt.NDArray[np.int64]


def split(labels: Labels, seed: int) -> tuple[Positions, Positions]:
    """Training and test positions, in the items' order; classes with one item are trained on.

    Where no class has two items nothing can be held out: all are trained and tested on, which has the usual cost
    but no meaning. `open_data` refuses such data; random labels, for timing, may be like that.
    """
    by_class, rank, sizes = _by_class(labels, seed)
    tested = np.where(sizes > 1, np.maximum(1, np.rint(sizes * TESTED)), 0)
    is_tested = rank < np.repeat(tested, sizes)
    if not is_tested.any():
        everything = np.arange(len(labels))
        return everything, everything
    return np.sort(by_class[~is_tested]), np.sort(by_class[is_tested])


def folds(labels: Labels, seed: int) -> Iterator[tuple[Positions, Positions]]:
    """Training and test positions, `FOLDS` times; each item of a class with several is tested once.

    Fewer where there are not enough items for all; none where no class has two items.
    """
    by_class, rank, sizes = _by_class(labels, seed)
    first = np.cumsum(sizes) - sizes  # the next class starts in the fold after the last one's: equal folds
    fold = np.where(np.repeat(sizes > 1, sizes), (rank + np.repeat(first, sizes)) % FOLDS, FOLDS)
    for number in range(FOLDS):
        if (fold == number).any():
            yield np.sort(by_class[fold != number]), np.sort(by_class[fold == number])


def _by_class(labels: Labels, seed: int) -> tuple[Positions, Positions, Positions]:
    """Positions in random order, class by class; each one's number within its class; the sizes of the classes."""
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    sizes = np.bincount(labels)
    return by_class, np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes), sizes
