"""Which items are learnt from and which are tested: the same for every candidate, every class in both."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from cotenant.ranking.protocol import Labels

TESTED = 0.25
"""Share of each class that is tested; at least one item."""

FOLDS = 4
"""Parts of the items of which each is tested once, after the others were learnt from."""

Positions = npt.NDArray[np.int64]


def split(labels: Labels, seed: int) -> tuple[Positions, Positions]:
    """Positions to learn from and positions to test, in the items' order; classes with one item are learnt from.

    Where no class has two items nothing can be held back: all are learnt from and tested, which costs what it costs
    and says nothing. `open_data` refuses such data; drawn labels, for timing, may be like that.
    """
    by_class, rank, sizes = _by_class(labels, seed)
    tested = np.where(sizes > 1, np.maximum(1, np.rint(sizes * TESTED)), 0)
    is_tested = rank < np.repeat(tested, sizes)
    if not is_tested.any():
        everything = np.arange(len(labels))
        return everything, everything
    return np.sort(by_class[~is_tested]), np.sort(by_class[is_tested])


def folds(labels: Labels, seed: int) -> Iterator[tuple[Positions, Positions]]:
    """Positions to learn from and positions to test, `FOLDS` times; each item of a class with several is tested once.

    Fewer where there are not enough items for all; none where no class has two items.
    """
    by_class, rank, sizes = _by_class(labels, seed)
    first = np.cumsum(sizes) - sizes  # the next class begins in the fold after the last one's: folds are of one size
    fold = np.where(np.repeat(sizes > 1, sizes), (rank + np.repeat(first, sizes)) % FOLDS, FOLDS)
    for number in range(FOLDS):
        if (fold == number).any():
            yield np.sort(by_class[fold != number]), np.sort(by_class[fold == number])


def _by_class(labels: Labels, seed: int) -> tuple[Positions, Positions, Positions]:
    """Positions in random order, class after class; each one's number within its class; the sizes of the classes."""
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    sizes = np.bincount(labels)
    return by_class, np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes), sizes
