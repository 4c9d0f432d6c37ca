"""Mixes as an array: one row each, tenants by their index, -1 where a mix has fewer tenants than the widest one."""

from collections.abc import Iterable, Sequence
from itertools import combinations_with_replacement

import numpy as np

from cotenant.prediction.kernels.columns import Bools, Floats, Ints

ABSENT = -1
LARGEST = 8
"""Tenants of a mix at most: the priors go over all combinations of neighbours that are active at a time."""


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
    """All mixes of one size, copies of a tenant included, each once."""
    if size == 2:
        first, second = np.triu_indices(tenants)
        return np.column_stack((first, second)).astype(np.int64)
    return mixes_of(combinations_with_replacement(range(tenants), size))


def present(mixes: Ints) -> Bools:
    """Which places of each row hold a tenant."""
    return np.asarray(mixes != ABSENT)


def placed(values: Floats, mixes: Ints, absent: float) -> Floats:
    """A value per tenant, at its places in the mixes."""
    return np.where(present(mixes), values[np.maximum(mixes, 0)], absent)


def by_victim(mixes: Ints) -> tuple[Ints, Ints, Ints]:
    """A row for each tenant of each mix: the mix it is of, the victim's place there, and the victim before the others.

    Returns:
        Index of the mix, place in the mix, rows with the victim in the first column and its neighbours behind.
    """
    which, place = np.nonzero(present(mixes))
    width = mixes.shape[1]
    order = (np.arange(width)[None, :] + place[:, None]) % width
    rows = np.take_along_axis(mixes[which], order, axis=1)
    return which.astype(np.int64), place.astype(np.int64), rows
