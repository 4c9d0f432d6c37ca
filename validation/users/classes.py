"""From rows to classes: errors, calibrated intervals, and the best simple law."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cotenant.prediction.trust import Class, ModelError, Quantity
from validation.users.laws import best_law, pool_of
from validation.users.row import UserRow

Floats = NDArray[np.float64]
SHARES = (0.9, 0.92, 0.94, 0.96, 0.98, 1.0)
"""Fractions of the residuals that an interval contains: the smallest that still covers left-out groups is taken, since
the next model is not one of these."""
COVERED = 0.86
"""Required fraction of covered rows: slightly above the promised 85 %."""
_RANGE_AND = 0.1
"""If even the range of all others doesn't cover them, this fraction of it is added at each end."""
_FEW = 20
"""With fewer rows, quantiles are unreliable: the widened range of all rows is used."""
_WIDENED = 0.25


@dataclass(frozen=True, slots=True)
class Judged:
    """One class."""

    kind: Class
    quantity: Quantity
    error: ModelError
    held_out_error: float
    """Mean error of the rows no constant was fitted with; NaN if none."""
    coverage: float
    """Fraction of rows within the interval from the other groups' rows."""
    worst_group: tuple[str, float]
    """The group with the lowest coverage."""
    half_width: float
    """Median relative half-width."""
    law: str
    law_error: float

    @property
    def law_is_better(self) -> bool:
        """Whether the simple law, fitted without the group it is judged by, is closer."""
        return self.law_error < self.error.mean_error


def judge(rows: Sequence[UserRow]) -> list[Judged]:
    """Every class of the rows, in order."""
    groups: dict[tuple[Class, Quantity], list[UserRow]] = defaultdict(list)
    for row in rows:
        groups[row.kind, row.quantity].append(row)
    pools: dict[tuple[Class, Quantity], list[UserRow]] = defaultdict(list)
    for row in rows:
        pools[pool_of(row.kind), row.quantity].append(row)
    return [
        _judged(kind, quantity, groups[kind, quantity], pools[pool_of(kind), quantity])
        for kind, quantity in sorted(groups)
    ]


def errors(judged: Sequence[Judged]) -> Mapping[tuple[Class, Quantity], ModelError]:
    """The errors shipped with the product."""
    return {(one.kind, one.quantity): one.error for one in judged}


def _judged(kind: Class, quantity: Quantity, rows: Sequence[UserRow], pool: Sequence[UserRow]) -> Judged:
    residuals = np.array([np.log(row.measured / row.simulated) for row in rows])
    off = np.array([abs(row.simulated / row.measured - 1) for row in rows])
    share = _share(rows, residuals)
    low, high = _range(residuals, share)
    covered = _left_out(rows, residuals, share)
    by_group: dict[str, list[bool]] = defaultdict(list)
    for row, inside in zip(rows, covered, strict=True):
        by_group[row.group].append(bool(inside))
    worst = min(by_group, key=lambda name: float(np.mean(by_group[name])))
    law, law_error = best_law(kind, pool)
    held_out = [error for row, error in zip(rows, off, strict=True) if not row.fitted]
    names = ", ".join(sorted({row.data_set for row in rows}))
    return Judged(
        kind,
        quantity,
        ModelError(
            round(float(np.exp(low)), 4),
            round(float(np.exp(high)), 4),
            round(float(off.mean()), 4),
            len(rows),
            names,
            f"{law}, {law_error * 100:.2g} %" if law_error < off.mean() and len(rows) >= _FEW else "",
        ),
        held_out_error=float(np.mean(held_out)) if held_out else float("nan"),
        coverage=float(np.mean(covered)),
        worst_group=(worst, float(np.mean(by_group[worst]))),
        half_width=float(np.exp(high) - np.exp(low)) / 2,
        law=law,
        law_error=law_error,
    )


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
    """Whether each row is covered by the interval of all other groups; in a class of one group, by its own."""
    names = np.array([row.group for row in rows])
    inside = np.zeros(len(rows), dtype=np.bool_)
    for name in set(names):
        others = residuals[names != name]
        low, high = _range(others if others.size else residuals, share)
        mine = names == name
        inside[mine] = (residuals[mine] >= low) & (residuals[mine] <= high)
    return inside
