"""From rows to classes: errors, ranges that hold for data sets left out, and the best simple law."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cotenant.prediction.data_sets import Between, comparable
from cotenant.prediction.trust import Class, Quantity, Validated, steps_name
from cotenant.tenancy.ways import ALONE
from validation.users.laws import best_law, pool_of
from validation.users.ranges import LeftOut, bundle_of, learn, nested, same_origin, same_unit
from validation.users.row import UserRow

_FEW = 20
"""A simple law is said to be closer from this many rows on."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A class and how the simulation did."""

    kind: Class
    quantity: Quantity
    rows: tuple[UserRow, ...]
    low: float
    high: float
    """Ends of the range that ships."""
    coverage: float
    """Fraction of rows within ranges made without their data set; NaN where none is judged so."""
    law: str
    law_error: float

    @property
    def mean_error(self) -> float:
        """Mean of |simulated / measured - 1|."""
        return float(np.mean([abs(row.simulated / row.measured - 1) for row in self.rows]))

    @property
    def held_out_error(self) -> float:
        """The same of the rows no constant was fitted with; NaN if none."""
        off = [abs(row.simulated / row.measured - 1) for row in self.rows if not row.fitted]
        return float(np.mean(off)) if off else float("nan")

    @property
    def data_sets(self) -> int:
        """Number of data sets."""
        return len({row.unit for row in self.rows})

    @property
    def sources(self) -> tuple[str, ...]:
        """Who measured them."""
        return tuple(sorted({row.source for row in self.rows}))

    @property
    def validated(self) -> bool:
        """Whether several data sets show it."""
        return self.data_sets > 1

    @property
    def half_width(self) -> float:
        """Relative half-width of the range."""
        return (self.high - self.low) / 2

    @property
    def law_is_better(self) -> bool:
        """Whether the simple law, fitted without the data set it is judged by, is closer."""
        return self.law_error < self.mean_error


@dataclass(frozen=True, slots=True)
class Judgement:
    """All classes, what ships, and how it holds for what is left out."""

    judged: list[Judged]
    validated: Validated
    without_set: list[LeftOut] = field(default_factory=list)
    without_source: list[LeftOut] = field(default_factory=list)


def judge(rows: Sequence[UserRow]) -> Judgement:
    """Every class of the rows, in order."""
    known = learn(rows)
    without_set, without_source = nested(rows, known, same_unit), nested(rows, known, same_origin)
    groups: dict[tuple[Class, Quantity], list[UserRow]] = defaultdict(list)
    pools: dict[tuple[Class, Quantity], list[UserRow]] = defaultdict(list)
    for row in rows:
        if row.quantity == "time" and row.kind.sharing != ALONE:
            continue
        groups[row.kind, row.quantity].append(row)
        pools[pool_of(row.kind), row.quantity].append(row)
    inside: dict[tuple[Class, Quantity], list[bool]] = defaultdict(list)
    for case in without_set:
        if case.row.quantity == "slowdown" or case.row.kind.sharing == ALONE:
            inside[case.row.kind, case.row.quantity].append(case.inside)
    judged = []
    for kind, quantity in sorted(groups):
        mine = groups[kind, quantity]
        law, law_error = best_law(kind, pools[pool_of(kind), quantity])
        low, high = _ends(kind, mine[0], known, quantity)
        held = inside.get((kind, quantity))
        coverage = float(np.mean(held)) if held else float("nan")
        judged.append(Judged(kind, quantity, tuple(mine), low, high, coverage, law, law_error))
    laws = {
        (verdict.kind, verdict.quantity): f"{verdict.law}, {verdict.law_error * 100:.2g} %"
        for verdict in judged
        if verdict.law_is_better and len(verdict.rows) >= _FEW
    }
    return Judgement(judged, replace(known, laws=laws), without_set, without_source)


def _ends(kind: Class, row: UserRow, known: Validated, quantity: Quantity) -> tuple[float, float]:
    bundle = bundle_of(row)
    steps = known.steps[steps_name(bundle, calibrated=kind.calibrated)]
    low, high = Between(bundle, comparable(known.sets, bundle, calibrated=kind.calibrated), steps).range_of(kind)
    if quantity == "tail":
        middle, half = (low + high) / 2, float(np.hypot((high - low) / 2, known.tails))
        low, high = middle - half, middle + half
    return float(np.exp(low)), float(np.exp(high))
