"""From rows to classes: errors, calibrated intervals, and the best simple law."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.prediction.trust import Class, ModelError, Quantity
from validation.users.laws import best_law, pool_of
from validation.users.ranges import covered, group_names, like, range_of
from validation.users.row import UserRow

_FEW = 20
"""A simple law is said to be closer from this many rows on."""


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
        _judged(
            kind,
            quantity,
            groups[kind, quantity],
            pools[pool_of(kind), quantity],
            [row for row in rows if row.quantity == quantity],
        )
        for kind, quantity in sorted(groups)
    ]


def errors(judged: Sequence[Judged]) -> Mapping[tuple[Class, Quantity], ModelError]:
    """The errors shipped with the product."""
    return {(one.kind, one.quantity): one.error for one in judged}


def _judged(
    kind: Class,
    quantity: Quantity,
    rows: Sequence[UserRow],
    pool: Sequence[UserRow],
    others: Sequence[UserRow],
) -> Judged:
    off = np.array([abs(row.simulated / row.measured - 1) for row in rows])
    borrowed = like(kind, rows, others)
    low, high = range_of(rows, borrowed)
    inside: dict[str, list[bool]] = defaultdict(list)
    within = covered(rows, borrowed)
    for row, is_inside in zip(rows, within, strict=True):
        inside[row.group].append(bool(is_inside))
    worst = min(inside, key=lambda name: float(np.mean(inside[name])))
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
            groups=len(set(group_names(rows))),
            like=len(set(group_names(borrowed))),
        ),
        held_out_error=float(np.mean(held_out)) if held_out else float("nan"),
        coverage=float(np.mean(within)),
        worst_group=(worst, float(np.mean(inside[worst]))),
        half_width=float(np.exp(high) - np.exp(low)) / 2,
        law=law,
        law_error=law_error,
    )
