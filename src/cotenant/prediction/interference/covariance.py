"""Covariance of the prior's errors on two pairs.

The error on (victim, neighbour) is a sum of independent parts. Each part is one of four terms of the victim times one
of four of the neighbour: any tenant, its family, tenants with a similar solo profile, this very tenant. Every part may
be a shift or grow with the prior's slowdown (a slope). The variances of the parts are the only parameters.
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
    """Variances of the log of measured over prior."""

    shift: Floats
    """4 x 4: the victim's term (`PARTS`) by the neighbour's."""
    slope: Floats
    """The same, per unit of the prior's log slowdown."""
    noise: float
    """Noise of a measured cell beyond its blocks' variance."""
    group: float = 0.02**2
    """Error common to all groups that their pairs don't show, per doubling of tenants beyond two."""
    group_noise: float = 0.13**2
    """Error specific to each group, per doubling of tenants beyond two. Both match the errors on ParvaGPU's groups of 3
    to 5 processes."""
    group_half: float = 0.18
    """Half-width of the 90 % interval of what the pairs of a group don't show, per doubling of tenants beyond two. The
    widest that ParvaGPU's groups of 3 to 5 processes ask for, with each held-out model left out in turn."""


class Atoms(NamedTuple):
    """The weighted pairs that make up the rows: one for a pair, several for a group."""

    victim: Ints
    neighbour: Ints
    prior: Floats
    gather: sparse.csr_matrix | None
    """Rows x pairs; None if each row is one pair."""
    size: Floats
    """By row, see `group_size`."""


def atoms_of(setting: Setting, rows: Ints) -> Atoms:
    """The pairs of rows with the victim first."""
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
        # Sum the neighbours' terms per tenant first, then spread them over the rows.
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
