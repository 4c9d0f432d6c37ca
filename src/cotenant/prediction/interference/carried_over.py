"""How much of a learnt correction carries over to tenants of families without evidence.

The prior's errors are alike within a family, so what was learnt on some families may be wrong for another. Families of
the evidence are left out, one at a time and two at a time; the share of the correction that would have predicted their
mixes best, less one standard error, applies to families that were never measured: without clear evidence for the
correction, the prior stands.
"""

from dataclasses import dataclass

import numpy as np

from cotenant.prediction.interference.correction import Correction
from cotenant.prediction.interference.mixes import present
from cotenant.prediction.kernels.columns import Bools, Floats, Ints

_MOST_PAIRS = 200
"""Pairs of families to leave out."""
_LEAST = 1e-9
"""Part of a sum that is distinguishable from rounding."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the correction, from 0 (the prior alone) to 1."""

    some: float
    """Where some tenants of a mix are of a new family."""
    every: float
    """Where all are."""
    seen: Ints
    """Families with evidence."""

    def of(self, families: Ints, rows: Ints) -> Floats:
        """By row: the share to apply."""
        there = present(rows)
        new = ~np.isin(families[np.maximum(rows, 0)], self.seen) & there
        every = (new | ~there).all(axis=1)
        return np.where(every, self.every, np.where(new.any(axis=1), self.some, 1.0))


def shares(correction: Correction) -> Shares:
    """Estimate the shares from the evidence; 1 where it has too few families to tell."""
    families = correction.setting.families[np.maximum(correction.evidence.rows, 0)]
    there = present(correction.evidence.rows)
    seen = np.unique(families[there])
    one, two = [], []
    for left_out in seen[:, None]:
        own = (families == left_out) & there
        inside = (own | ~there).all(axis=1)
        one.append(_products(correction, own.any(axis=1), ~inside))
        two.append(_products(correction, own.any(axis=1), inside))
    for pair in _measured_pairs(families, there):
        first, second = ((families == one_of) & there for one_of in pair[:, None])
        between = first.any(axis=1) & second.any(axis=1) & (first | second | ~there).all(axis=1)
        two.append(_products(correction, (first | second).any(axis=1), between))
    return Shares(_share(np.array(one)), _share(np.array(two)), seen)


def _measured_pairs(families: Ints, there: Bools) -> Ints:
    """Two families each, of measured mixes with tenants of just these."""
    low = np.where(there, families, families.max(initial=0)).min(axis=1)
    high = np.where(there, families, -1).max(axis=1)
    of_two = ((families == low[:, None]) | (families == high[:, None]) | ~there).all(axis=1) & (low < high)
    found = np.unique(np.column_stack((low, high))[of_two], axis=0)
    return found[:: max(1, -(-len(found) // _MOST_PAIRS))]


def _products(correction: Correction, left_out: Bools, judged: Bools) -> tuple[float, float]:
    """Sums over the judged rows: the prior's error times the correction learnt without these; the latter squared."""
    mine = np.flatnonzero(left_out)
    if mine.size == left_out.size or not (left_out & judged).any():
        return 0.0, 0.0
    error, _ = correction.without(mine)
    judging = judged[mine]
    residual = correction.residual[mine][judging]
    learnt = residual - error[judging]
    return float(residual @ learnt), float(learnt @ learnt)


def _share(products: Floats) -> float:
    """The least-squares share, less a jackknife's standard error."""
    products = products.reshape(-1, 2)
    products = products[products[:, 1] > 0]
    if len(products) < 2:
        return 1.0
    total = products.sum(axis=0)
    without = total - products
    each = without[:, 0] / np.maximum(without[:, 1], _LEAST * total[1])
    error = float(np.sqrt((len(each) - 1) * each.var()))
    return float(np.clip(total[0] / total[1] - error, 0.0, 1.0))
