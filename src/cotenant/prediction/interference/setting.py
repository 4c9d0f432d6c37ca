"""The tenants of a correction: their similarity, the prior for every pair, and mixes as an array."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from cotenant.prediction.kernels.columns import Bools, Floats, Ints

Prior = Callable[[Ints], Floats]
"""Maps mixes (rows of tenant indices) to log slowdowns at the same places."""

REACH = 3.0
"""Length scale in feature steps (a correlation of 0.6 at this distance). Chosen among 1.3, 2 and 3 on Gavel's matrices:
it mainly affects how fast an entire matrix is learnt."""
_LEAST_WEIGHT = 0.01
"""Weight of a neighbour that the prior expects to be harmless: its correction counts a little."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Tenants on a kind of device under a way to share."""

    families: Ints
    """By tenant; a family runs the same model at different batches, lengths or precisions."""
    likeness: Floats
    """Tenants x tenants: 1 for equal solo profiles, 0 for entirely different ones."""
    prior: Prior
    pair_prior: Floats
    """Tenants x tenants: log slowdown of the first beside the second."""

    def __len__(self) -> int:
        """Number of tenants."""
        return int(self.families.size)

    def weights(self, rows: Ints) -> Floats:
        """Weight of each neighbour in the correction of a row (the victim first), by the prior's expected harm.

        Returns:
            Rows x neighbours; each row sums to 1.
        """
        neighbours = rows[:, 1:]
        harm = self.pair_prior[rows[:, :1], np.maximum(neighbours, 0)] + _LEAST_WEIGHT
        harm = np.where(present(neighbours), np.maximum(harm, _LEAST_WEIGHT), 0.0)
        return np.asarray(harm / np.maximum(harm.sum(axis=1, keepdims=True), _LEAST_WEIGHT))


def setting_of(families: Sequence[str], features: Floats, prior: Prior) -> Setting:
    """Tenants with their solo features and the prior for their mixes."""
    names = sorted(set(families))
    numbers = np.array([names.index(family) for family in families], np.int64)
    squares = (features**2).sum(axis=1)
    apart = np.maximum(squares[:, None] + squares[None, :] - 2 * features @ features.T, 0.0)
    return Setting(numbers, np.exp(-apart / (2 * REACH**2)), prior, _pairs(len(families), prior))


def _pairs(tenants: int, prior: Prior) -> Floats:
    mixes = every_mix(tenants, 2)
    logs = np.nan_to_num(prior(mixes))  # a pair that can't share the device is in no mix that can
    table = np.zeros((tenants, tenants))
    table[mixes[:, 0], mixes[:, 1]] = logs[:, 0]
    table[mixes[:, 1], mixes[:, 0]] = logs[:, 1]
    return table


def group_size(rows: Ints) -> Floats:
    """Distance of a row from a pair: 0 for two tenants, 1 for four."""
    return np.asarray(np.log2(np.maximum(present(rows).sum(axis=1), 2) / 2))


# --- Mixes as an array: a row of tenant indices per mix, padded with -1

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
    """All distinct mixes of a size, including copies of a tenant."""
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
    """A row per tenant of each mix, with that tenant as the victim in front.

    Returns:
        Index of the mix, place in the mix, and rows with the victim in the first column, then its neighbours.
    """
    which, column = np.nonzero(present(mixes))
    width = mixes.shape[1]
    order = (np.arange(width)[None, :] + column[:, None]) % width
    rows = np.take_along_axis(mixes[which], order, axis=1)
    return which.astype(np.int64), column.astype(np.int64), rows
