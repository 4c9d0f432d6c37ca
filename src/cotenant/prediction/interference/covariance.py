"""How much the prior's errors on two pairs have in common.

The error on (victim, neighbour) is a sum of independent parts. Each part is one of four things about the victim times
one of four about the neighbour: any tenant, its family, tenants with a solo profile like its own, this very tenant.
Every part may be a shift or grow with the prior's slowdown (a slope). Variances of the parts are all there is to set.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse

from cotenant.prediction.interference.setting import Setting, group_size
from cotenant.prediction.kernels.columns import Floats, Ints

PARTS = ("any", "family", "alike", "same")


@dataclass(frozen=True, slots=True)
class Variances:
    """Of the logarithm of measured over prior."""

    shift: Floats
    """4 x 4: what about the victim (`PARTS`) by what about the neighbour."""
    slope: Floats
    """The same, per unit of the prior's log slowdown."""
    noise: float
    """Of a measured cell, beyond what its blocks say."""
    group: float = 0.02**2
    """What all groups have in common that their pairs don't show, per doubling of tenants beyond two."""
    group_noise: float = 0.13**2
    """What each group has for itself, per doubling of tenants beyond two. Both of the size of the errors on
    ParvaGPU's groups of 3 to 5 processes."""


class Atoms(NamedTuple):
    """Pairs that rows consist of, with their weights: one per row that is a pair, several for a group."""

    victim: Ints
    neighbour: Ints
    prior: Floats
    gather: sparse.csr_matrix | None
    """Rows x pairs; None: each row is one pair."""
    size: Floats
    """Per row, see `group_size`."""


def atoms_of(setting: Setting, rows: Ints) -> Atoms:
    """The pairs of rows that hold the victim first."""
    size = group_size(rows)
    if rows.shape[1] == 2:
        return Atoms(rows[:, 0], rows[:, 1], setting.pair_prior[rows[:, 0], rows[:, 1]], None, size)
    weights = setting.weights(rows)
    row, place = np.nonzero(weights)
    victim, neighbour = rows[row, 0], rows[row, place + 1]
    gather = sparse.csr_matrix((weights[row, place], (row, np.arange(row.size))), shape=(len(rows), row.size))
    return Atoms(victim, neighbour, setting.pair_prior[victim, neighbour], gather, size)


def likenesses(setting: Setting) -> tuple[Floats, ...]:
    """Tenants x tenants for each of `PARTS`."""
    count = len(setting)
    family = (setting.families[:, None] == setting.families[None, :]).astype(np.float64)
    return np.ones((count, count)), family, setting.likeness, np.eye(count)


def covariance(setting: Setting, variances: Variances, first: Atoms, second: Atoms) -> Floats:
    """Rows of the first x rows of the second, without noise."""
    tables = likenesses(setting)
    result = np.zeros((first.victim.size, second.victim.size))
    for part, table in enumerate(tables):
        # What has to do with the neighbour is added up per tenant first, and only then spread over the rows.
        shifts, slopes = (
            np.tensordot(sizes[part], [one[first.neighbour] for one in tables], 1)
            for sizes in (variances.shift, variances.slope)
        )
        inner = (slopes * first.prior[:, None])[:, second.neighbour]
        inner *= second.prior[None, :]
        inner += shifts[:, second.neighbour]
        inner *= table[first.victim][:, second.victim]
        result += inner
    result = _gathered(result, first, second)
    if first.size.any() and second.size.any():
        result = result + variances.group * first.size[:, None] * second.size[None, :]
    return result


def _gathered(pairs: Floats, first: Atoms, second: Atoms) -> Floats:
    left = pairs if first.gather is None else first.gather @ pairs
    return np.asarray(left if second.gather is None else (second.gather @ left.T).T)
