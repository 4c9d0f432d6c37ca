"""Mixes as an array: one row per mix of tenant indices, padded with -1."""

from collections.abc import Iterable, Sequence
from itertools import combinations_with_replacement

import numpy as np

from cotenant.prediction.kernels.columns import Bools, Floats, Ints

ABSENT = -1
LARGEST = 8
"""Maximum tenants of a mix: priors enumerate all combinations of active neighbours."""


def mixes_of(groups: Iterable[Sequence[int]]) -> Ints:
    """Rows from groups of any size.

    Raises:
        ValueError: A group is empty or larger than `LARGEST`.
    """
    rows = [tuple(group) for group in groups]
    widest = max((len(row) for row in rows), default=2)
    if widest > LARGEST or not all(rows):
        raise ValueError(f"a mix has 1 to {LARGEST} tenants")
    return np.array([(*row, *(ABSENT,) * (widest - len(row))) for row in rows], np.int64).reshape(-1, widest)


def every_mix(tenants: int, size: int) -> Ints:
    """All distinct mixes of one size, including copies of a tenant."""
    if size == 2:
        first, second = np.triu_indices(tenants)
        return np.column_stack((first, second)).astype(np.int64)
    return mixes_of(combinations_with_replacement(range(tenants), size))


def present(mixes: Ints) -> Bools:
    """Mask of occupied places."""
    return np.asarray(mixes != ABSENT)


def placed(values: Floats, mixes: Ints, absent: float) -> Floats:
    """Spread a value per tenant over its places in the mixes."""
    return np.where(present(mixes), values[np.maximum(mixes, 0)], absent)


def by_victim(mixes: Ints) -> tuple[Ints, Ints, Ints]:
    """One row per tenant of each mix, with that tenant as the victim in front.

    Returns:
        Index of the mix, place in the mix, and rows with the victim in the first column, then its neighbours.
    """
    which, place = np.nonzero(present(mixes))
    width = mixes.shape[1]
    order = (np.arange(width)[None, :] + place[:, None]) % width
    rows = np.take_along_axis(mixes[which], order, axis=1)
    return which.astype(np.int64), place.astype(np.int64), rows
