"""Covariance of the prior's errors on two pairs.

The error on (victim, neighbour) is a sum of independent parts. Each part is one of four terms of the victim times one
of four of the neighbour: any tenant, its family, tenants with a similar solo profile, this very tenant. Every part may
be a shift or grow with the prior's slowdown (a slope). The variances of the parts are the only parameters.
"""

from dataclasses import dataclass, replace
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
    """Rows x pairs; None if each row is a pair."""
    size: Floats
    """By row, see `group_size`."""


def atoms_of(setting: Setting, rows: Ints) -> Atoms:
    """The pairs of rows with the victim first."""
    size = group_size(rows)
    if rows.shape[1] == 2:
        return Atoms(rows[:, 0], rows[:, 1], setting.pair_prior[rows[:, 0], rows[:, 1]], None, size)
    weights = setting.weights(rows)
    row, column = np.nonzero(weights)
    victim, neighbour = rows[row, 0], rows[row, column + 1]
    gather = sparse.csr_matrix((weights[row, column], (row, np.arange(row.size))), shape=(len(rows), row.size))
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
            np.tensordot(sizes[part], [likeness[first.neighbour] for likeness in tables], 1)
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


# --- Initial variances of the correction, fitted on measured matrices, and the prior's error there
#
# Never refitted on a user's evidence: below about a hundred pairs, refitted variances give intervals that are too
# narrow. `python -m validation.interference --data DIR` refits and evaluates them.


def _squares(rows: tuple[tuple[float, ...], ...]) -> np.ndarray:
    return np.array(rows, np.float64) ** 2


GPU = Variances(
    shift=_squares(
        (
            (0.024, 0.023, 0.015, 0.011),
            (0.036, 0.036, 0.013, 0.026),
            (0.022, 0.021, 0.013, 0.009),
            (0.044, 0.012, 0.008, 0.041),
        )
    ),
    slope=_squares(
        (
            (0.095, 0.050, 0.099, 0.048),
            (0.185, 0.0, 0.0, 0.0),
            (0.117, 0.0, 0.884, 0.0),
            (0.039, 0.0, 0.0, 0.0),
        )
    ),
    noise=0.035**2,
)
"""Fitted on the 337 pairs of Gavel's jobs on a P100; evaluated on those on a V100."""

CPU = Variances(
    shift=_squares(
        (
            (0.120, 0.024, 0.101, 0.057),
            (0.042, 0.024, 0.023, 0.009),
            (0.062, 0.046, 0.114, 0.036),
            (0.011, 0.005, 0.006, 0.020),
        )
    ),
    slope=_squares(
        (
            (0.090, 0.058, 0.108, 0.080),
            (0.112, 0.0, 0.0, 0.0),
            (0.498, 0.0, 0.426, 0.0),
            (0.018, 0.0, 0.0, 0.0),
        )
    ),
    noise=0.019**2,
    group_noise=0.25**2,
    group_half=0.35,
)
"""Fitted on the V100's 328 pairs, which leave more to the evidence: no other public matrix was measured on a CPU. What
pairs don't show of groups is from the triples of `predict-truth`, the half-width with each model left out in turn."""

CPU_THREADS = replace(CPU, group_half=0.57)
"""Tenants that are threads of the same process also wait for its interpreter lock."""

GPU_PRIOR_HALF = 0.44
"""90 % of the slowdowns of Gavel's ResNets on a P100, the worse of its two GPUs, are within e^0.44 of the prior with
the profiles that `predict` makes."""
PLAIN_PRIOR_HALF = 0.65
"""The same with profiles of nothing but times alone, all of Gavel's jobs on a V100, the worse of the two."""
CPU_PRIOR_HALF = 1.2
"""90 % of the slowdowns of `predict-truth` are within e^1.2 of the prior: it says little without measured mixes."""
