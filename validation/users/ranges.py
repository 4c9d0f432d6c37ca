"""Ranges of measured values relative to simulated ones, wide enough for groups (models, mixes, GPUs) left out.

A class of many rows has to cover its own rows. With few rows from few groups, no range that holds for nine in ten new
groups can be told from them alone: the next model is then taken to be as far off as any model that the same software
runs on the same family of GPUs, each model counting the same (hierarchical conformal prediction: Lee, Barber and
Willett, 2023). Where that doesn't cover the class's own groups, other families count too. What like classes show only
widens a range: a class is never promised to be closer than its own rows were.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cotenant.prediction.trust import Class
from validation.users.row import UserRow

Floats = NDArray[np.float64]
SHARES = (0.9, 0.92, 0.94, 0.96, 0.98, 1.0)
"""Fractions of the residuals that an interval contains: the smallest that still covers left-out groups is taken, since
the next model is not one of these."""
COVERED = 0.86
"""Required fraction of covered rows: slightly above the promised 85 %."""
MANY = 30
"""From this many rows on, a class stands for itself."""
ENOUGH_GROUPS = 9
"""With fewer groups, not even the widest of them is exceeded in one case of ten."""
_RANGE_AND = 0.1
"""If even the range of all others doesn't cover them, this fraction of it is added at each end."""
_FEW = 20
"""With fewer rows, quantiles are unreliable: the widened range of all rows is used."""
_WIDENED = 0.25


def residuals_of(rows: Sequence[UserRow]) -> Floats:
    """Logarithms of measured over simulated values."""
    return np.array([np.log(row.measured / row.simulated) for row in rows])


def group_names(rows: Sequence[UserRow]) -> NDArray[np.str_]:
    """By row, what it is left out with."""
    return np.array([row.group for row in rows])


def like(kind: Class, own: Sequence[UserRow], pool: Sequence[UserRow]) -> list[UserRow]:
    """Rows of like classes to judge a small class with; empty if it stands for itself or there are too few.

    Like it are the other phases of the same software on the same family of GPUs, under the same way to share; and the
    same phase on other families, if its groups left out are not covered without. Training is unlike the rest.
    """
    names = set(group_names(own))
    if len(own) >= MANY or len(names) >= ENOUGH_GROUPS or kind.phase == "training":
        return []
    found = [row for row in pool if row.kind.phase not in (kind.phase, "training") and _executed(row.kind, kind)]
    if len(set(group_names([*own, *found]))) < ENOUGH_GROUPS:
        found = []
    if len(names) > 1 and float(np.mean(covered(own, found))) < COVERED:
        found += [row for row in pool if row.kind.family != kind.family and _same_but_family(row.kind, kind)]
    return found


def _same_but_family(one: Class, other: Class) -> bool:
    return replace(one, family=other.family) == other


def _executed(one: Class, other: Class) -> bool:
    return replace(one, phase=other.phase) == other


def by_group(rows: Sequence[UserRow]) -> tuple[float, float]:
    """The narrowest range of nine in ten new groups, each group counting the same."""
    names, residuals = group_names(rows), residuals_of(rows)
    sizes = Counter(names)
    weights = np.array([1 / sizes[name] for name in names])
    needed = min(1.0, SHARES[0] * (len(sizes) + 1) / len(sizes)) * weights.sum()
    order = np.argsort(residuals)
    ordered, total = residuals[order], np.concatenate([[0.0], np.cumsum(weights[order])])
    ends = np.searchsorted(total, total[:-1] + needed * (1 - 1e-12)) - 1
    starts = np.flatnonzero(ends < ordered.size)
    widths = np.exp(ordered[ends[starts]]) - np.exp(ordered[starts])
    narrowest = int(starts[int(np.argmin(widths))])
    return float(ordered[narrowest]), float(ordered[ends[narrowest]])


def own_range(rows: Sequence[UserRow]) -> tuple[float, float]:
    """The range of a class that stands for itself."""
    residuals = residuals_of(rows)
    return _range(residuals, _share(rows, residuals))


def range_of(rows: Sequence[UserRow], borrowed: Sequence[UserRow]) -> tuple[float, float]:
    """The range of a class: its own, or that of it and like classes, which contains at least its own rows."""
    if not borrowed:
        return own_range(rows)
    low, high = by_group([*rows, *borrowed])
    residuals = residuals_of(rows)
    return min([low, *residuals]), max([high, *residuals])


def covered(rows: Sequence[UserRow], borrowed: Sequence[UserRow]) -> NDArray[np.bool_]:
    """Whether each row lies in the range of all other groups; in a class of one group, in its own."""
    names, residuals = group_names(rows), residuals_of(rows)
    if not borrowed:
        return _left_out(rows, residuals, _share(rows, residuals))
    inside = np.zeros(len(rows), dtype=np.bool_)
    for name in set(names):
        low, high = range_of([row for row, its in zip(rows, names, strict=True) if its != name], borrowed)
        inside[names == name] = (residuals[names == name] >= low) & (residuals[names == name] <= high)
    return inside


def _share(rows: Sequence[UserRow], residuals: Floats) -> float:
    """The smallest fraction that is enough; above 1 if not even the range of the others is."""
    enough = (share for share in SHARES if float(np.mean(_left_out(rows, residuals, share))) >= COVERED)
    return next(enough, 2.0)


def _range(residuals: Floats, share: float) -> tuple[float, float]:
    """The narrowest range that holds this fraction of the residuals."""
    if residuals.size < _FEW:
        spread = _WIDENED * float(max(np.ptp(residuals), np.abs(residuals).max()))
        return float(residuals.min()) - spread, float(residuals.max()) + spread
    if share > 1:
        spread = _RANGE_AND * float(np.ptp(residuals))
        return float(residuals.min()) - spread, float(residuals.max()) + spread
    ordered = np.sort(residuals)
    within = min(residuals.size, int(np.ceil((residuals.size + 1) * share)))
    starts, ends = ordered[: residuals.size - within + 1], ordered[within - 1 :]
    narrowest = int(np.argmin(np.exp(ends) - np.exp(starts)))
    return float(starts[narrowest]), float(ends[narrowest])


def _left_out(rows: Sequence[UserRow], residuals: Floats, share: float) -> NDArray[np.bool_]:
    names = group_names(rows)
    inside = np.zeros(len(rows), dtype=np.bool_)
    for name in set(names):
        others = residuals[names != name]
        low, high = _range(others if others.size else residuals, share)
        mine = names == name
        inside[mine] = (residuals[mine] >= low) & (residuals[mine] <= high)
    return inside
