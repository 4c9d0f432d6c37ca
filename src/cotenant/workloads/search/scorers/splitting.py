"""Which items are learnt from and which are tested: the same for every candidate, every class in both."""

import numpy as np
import numpy.typing as npt

from cotenant.workloads.search.protocol import Labels

TESTED = 0.25
"""Share of each class that is tested; at least one item."""

Positions = npt.NDArray[np.int64]


def split(labels: Labels, seed: int) -> tuple[Positions, Positions]:
    """Positions to learn from and positions to test, in the items' order; classes with one item are learnt from.

    Where no class has two items nothing can be held back: all are learnt from and tested, which costs what it costs
    and says nothing. `open_data` refuses such data; drawn labels, for timing, may be like that.
    """
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    sizes = np.bincount(labels)
    rank = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    tested = np.where(sizes > 1, np.maximum(1, np.rint(sizes * TESTED)), 0)
    is_tested = rank < np.repeat(tested, sizes)
    if not is_tested.any():
        everything = np.arange(len(labels))
        return everything, everything
    return np.sort(by_class[~is_tested]), np.sort(by_class[is_tested])
