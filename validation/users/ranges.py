"""Learn how errors grow between data sets, and check the ranges on data sets and sources left out.

Steps are the standard deviations of effects under which the means of all data sets are most likely; data sets far off
count less (a t distribution). What ranges need on top is taken from data sets left out, one at a time and one source at
a time: the constants and laws of the simulation were chosen with these data in view, so that the next source is farther
off than its steps alone say.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from cotenant.prediction.data_sets import (
    FITTED_SOFTWARE,
    MOST_ROWS,
    SET,
    SOURCE,
    UNFITTED,
    Between,
    Bundle,
    DataSet,
    EffectSteps,
    comparable,
    likeness,
    own_spread,
    same_source,
)
from cotenant.prediction.kernels.columns import Floats
from cotenant.prediction.trust import Class, Quantity, Validated, steps_name
from cotenant.tenancy.ways import ALONE
from validation.users.row import UserRow

LEVEL = 0.92
"""Rows of data sets left out that ranges hold: above the promised nine in ten, since the simulation has seen them."""
_USUAL, _SURE = 0.08, 0.7
"""Prior of a step, and the standard deviation of its logarithm."""
_FREEDOM, _ROUNDS = 4.0, 4
"""Degrees of freedom of the t distribution, and rounds of fitting steps and weights."""
_NORMAL = 1.645

Left = Callable[[DataSet, DataSet], bool]
"""Whether the second is left out with the first."""


def same_unit(first: DataSet, other: DataSet) -> bool:
    """The same data set, in any class."""
    return (first.model, first.gpu, first.source) == (other.model, other.gpu, other.source)


def same_origin(first: DataSet, other: DataSet) -> bool:
    """From the same source."""
    return first.source == other.source


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A row under the range made without its data set, or without its source."""

    row: UserRow
    found: DataSet
    low: float
    high: float
    deviations: float
    """Its distance from the expected value, in expected deviations."""
    validated: bool
    """Whether its class counts as validated, from all data sets."""

    @property
    def inside(self) -> bool:
        """Whether the range holds it."""
        return self.low <= float(np.log(self.row.measured / self.row.simulated)) <= self.high

    @property
    def half_width(self) -> float:
        """Relative half-width of the range."""
        return float(np.exp(self.high) - np.exp(self.low)) / 2


def bundle_of(row: UserRow) -> Bundle:
    """What a row is compared with."""
    return "alone" if row.kind.sharing == ALONE else "slowdown"


def grouped(rows: Sequence[UserRow]) -> dict[tuple[Bundle, Class, tuple[str, str, str]], list[UserRow]]:
    """Rows by bundle, class and data set, without tails and times beside others, which have the errors of these."""
    groups: dict[tuple[Bundle, Class, tuple[str, str, str]], list[UserRow]] = defaultdict(list)
    for row in rows:
        if row.quantity == "slowdown" or (row.quantity == "time" and row.kind.sharing == ALONE):
            groups[bundle_of(row), row.kind, row.unit].append(row)
    return groups


def data_set_of(bundle: Bundle, rows: Sequence[UserRow]) -> DataSet:
    """The summary of a data set's rows in a class."""
    logs = logs_of(rows)
    first = rows[0]
    return DataSet(
        kind=first.kind,
        bundle=bundle,
        source=first.source,
        model=first.group,
        gpu=first.gpu,
        n=len(rows),
        mean=round(float(logs.mean()), 5),
        spread=round(float(logs.std(ddof=1)), 5) if len(rows) > 1 else 0.0,
        mean_error=round(float(np.mean([abs(row.simulated / row.measured - 1) for row in rows])), 5),
    )


def logs_of(rows: Sequence[UserRow]) -> Floats:
    """Logarithms of measured over simulated values."""
    return np.array([np.log(row.measured / row.simulated) for row in rows])


def learn(
    rows: Sequence[UserRow],
    laws: Mapping[tuple[Class, Quantity], str] | None = None,
    only: Collection[str] | None = None,
) -> Validated:
    """Data sets, steps and widths from all rows.

    Args:
        rows: Measured and simulated values.
        laws: Simple laws that are closer, by class.
        only: Bundles, by the names of their steps, to learn steps of; default: all.
    """
    sets = [data_set_of(bundle, mine) for (bundle, _, _), mine in grouped(rows).items()]
    by_set = {
        (data_set.bundle, data_set.kind, data_set.source, data_set.model, data_set.gpu): data_set for data_set in sets
    }
    steps: dict[str, EffectSteps] = {}
    for bundle in sorted({data_set.bundle for data_set in sets}):
        for calibrated in (False, True):
            mine = [
                data_set for data_set in sets if data_set.bundle == bundle and data_set.kind.calibrated == calibrated
            ]
            if not mine or (only is not None and steps_name(bundle, calibrated=calibrated) not in only):
                continue
            fitted, weights = fit(bundle, mine)
            for data_set, weight in zip(mine, weights, strict=True):
                key = data_set.bundle, data_set.kind, data_set.source, data_set.model, data_set.gpu
                by_set[key] = replace(data_set, weight=round(float(weight), 4))
            steps[steps_name(bundle, calibrated=calibrated)] = fitted
    known = Validated(tuple(by_set.values()), steps, 0.0, laws or {})
    known = replace(known, steps={name: _calibrated(name, step, rows, known) for name, step in steps.items()})
    return replace(known, tails=_what_tails_add(rows))


def fit(bundle: Bundle, sets: Sequence[DataSet]) -> tuple[EffectSteps, Floats]:
    """Steps of a bundle, and the weights of its data sets."""
    kinds = [data_set.kind for data_set in sets]
    shared = {name: table for name, table in likeness(bundle, kinds, kinds).items() if _tells(table)}
    tables = [*shared.values(), same_source(sets), np.eye(len(sets))]
    names = [*shared, SOURCE, SET]
    usual = float(np.median([data_set.spread for data_set in sets if data_set.n > 2] or [_USUAL]))
    noise = np.array([own_spread(data_set, usual) / min(data_set.n, MOST_ROWS) for data_set in sets])
    means, weights = np.array([data_set.mean for data_set in sets]), np.ones(len(sets))
    logs = np.full(len(tables), np.log(_USUAL))

    def covariance(logs: Floats) -> Floats:
        effects = sum(np.exp(2 * log) * table for log, table in zip(logs, tables, strict=True))
        return np.asarray(effects + np.diag(noise))

    def unlikely(logs: Floats, weights: Floats) -> tuple[float, Floats]:
        """Negative logarithm of the likelihood and the prior, and its slopes."""
        within = covariance(logs)
        within[np.diag_indices_from(within)] /= weights
        factor = np.linalg.cholesky(within)
        inverse = np.linalg.inv(within)
        alpha = inverse @ means
        away = (logs - np.log(_USUAL)) / _SURE
        value = 0.5 * means @ alpha + np.log(np.diag(factor)).sum() + 0.5 * (away**2).sum()
        steeper = inverse - np.outer(alpha, alpha)
        steeper[np.diag_indices_from(steeper)] /= weights
        slopes = [np.exp(2 * log) * (steeper * table).sum() for log, table in zip(logs, tables, strict=True)]
        return float(value), np.array(slopes) + away / _SURE

    for _ in range(_ROUNDS):
        logs = np.asarray(minimize(unlikely, logs, args=(weights,), jac=True, method="L-BFGS-B").x)
        inverse = np.linalg.inv(covariance(logs))
        squares = (inverse @ means) ** 2 / np.diag(inverse)
        weights = np.minimum(1.0, (_FREEDOM + 1) / (_FREEDOM + squares))
    spreads = [data_set.spread for data_set in sets if data_set.n > 2]
    within = float(np.sqrt(np.mean(np.square(spreads)))) if spreads else _USUAL
    effects = {name: round(float(np.exp(log)), 4) for name, log in zip(names, logs, strict=True)}
    strangers = [data_set.mean for data_set in sets if data_set.kind.software not in FITTED_SOFTWARE]
    if UNFITTED in effects:
        # Where constants are those of another software, data sets far off aren't exceptions.
        effects[UNFITTED] = round(float(np.sqrt(np.mean(np.square(strangers)))), 4)
    return EffectSteps(effects, round(within, 4), _NORMAL, _NORMAL), weights


def _tells(table: Floats) -> bool:
    """Whether several data sets share the property, and not all do."""
    return bool(table.sum() > np.trace(table) > 0)


def nested(rows: Sequence[UserRow], known: Validated, together: Left) -> list[LeftOut]:
    """Every row under ranges whose steps and widths, too, were learnt without what belongs together with its data set.

    Args:
        rows: All rows.
        known: What was learnt from all of them: says which classes count as validated.
        together: Whether a data set is left out with another.
    """
    result: list[LeftOut] = []
    judged: set[DataSet] = set()
    for data_set in known.sets:
        if data_set in judged:
            continue
        apart = {other for other in known.sets if together(data_set, other)}
        judged |= apart
        keys = {(other.model, other.gpu, other.source) for other in apart}
        mine = [row for row in rows if (row.group, row.gpu, row.source) in keys]
        names = {_named(other) for other in apart} | {"alone"}  # times beside others have the error of both
        rest = learn([row for row in rows if (row.group, row.gpu, row.source) not in keys], only=names)
        rest = replace(rest, steps={**known.steps, **rest.steps})  # of bundles with nothing else there are no others
        result += left_out(mine, rest, together, known) + beside(mine, rest, together, known)
    return result


def left_out(
    rows: Sequence[UserRow], known: Validated, together: Left, every: Validated | None = None
) -> list[LeftOut]:
    """Every row under the range made without all data sets that belong together with its own.

    Args:
        rows: The rows to judge.
        known: Data sets, steps and widths.
        together: Whether a data set is left out with another.
        every: All data sets, if `known` lacks some: a class with several counts as validated.
    """
    result: list[LeftOut] = []
    for (bundle, kind, _), mine in grouped(rows).items():
        data_set = data_set_of(bundle, mine)
        name = steps_name(bundle, calibrated=kind.calibrated)
        if name not in known.steps:
            continue
        sets = comparable(known.sets, bundle, calibrated=kind.calibrated)
        between = Between(bundle, [other for other in sets if not together(data_set, other)], known.steps[name])
        mean, deviation = between.expected(kind)
        validated = _several(bundle, kind, every or known)
        half = deviation * (known.steps[name].validated if validated else known.steps[name].borrowed)
        for row, log in zip(mine, logs_of(mine), strict=True):
            off = abs(float(log) - mean) / deviation
            result.append(LeftOut(row, data_set, mean - half, mean + half, off, validated))
    return result


def _several(bundle: Bundle, kind: Class, known: Validated) -> bool:
    return sum(other.kind == kind for other in comparable(known.sets, bundle, calibrated=kind.calibrated)) > 1


def beside(rows: Sequence[UserRow], known: Validated, together: Left, every: Validated | None = None) -> list[LeftOut]:
    """Times beside others, under the ranges of the time alone, unless it was given, and of the slowdown together."""
    result: list[LeftOut] = []
    ranges: dict[tuple[Class, Quantity, tuple[str, str, str]], tuple[float, float, bool]] = {}
    for row in rows:
        if row.kind.sharing == ALONE or row.quantity == "tail":
            continue
        data_set = data_set_of("slowdown", [row])
        key = row.kind, row.quantity, row.unit
        if key not in ranges:
            ranges[key] = _together(data_set, known, together, every or known, timed=row.quantity == "time")
        low, high, validated = ranges[key]
        if row.quantity == "time":
            result.append(LeftOut(row, data_set, low, high, 0.0, validated))
    return result


def _together(
    data_set: DataSet, known: Validated, apart: Left, every: Validated, *, timed: bool
) -> tuple[float, float, bool]:
    kinds: list[tuple[Bundle, Class]] = [("slowdown", data_set.kind)]
    if timed and not data_set.kind.calibrated:
        kinds.append(("alone", replace(data_set.kind, sharing=ALONE)))
    squares, validated = [0.0, 0.0], True
    for bundle, kind in kinds:
        sets = comparable(known.sets, bundle, calibrated=kind.calibrated)
        steps = known.steps[steps_name(bundle, calibrated=kind.calibrated)]
        between = Between(bundle, [other for other in sets if not apart(data_set, other)], steps)
        several = _several(bundle, kind, every)
        mean, deviation = between.expected(kind)
        half = deviation * (steps.validated if several else steps.borrowed)
        squares[0] += min(mean - half, 0.0) ** 2
        squares[1] += max(mean + half, 0.0) ** 2
        validated = validated and several
    return -float(np.sqrt(squares[0])), float(np.sqrt(squares[1])), validated


def _calibrated(name: str, steps: EffectSteps, rows: Sequence[UserRow], known: Validated) -> EffectSteps:
    """Steps with the deviations that hold enough rows of what is left out, whichever way it is left out and counted."""
    own = [row for row in rows if steps_name(bundle_of(row), calibrated=row.kind.calibrated) == name]
    of_sets, of_sources = left_out(own, known, same_unit), left_out(own, known, same_origin)
    validated = [row for row in of_sets if row.validated]
    kinds = {row.found.kind for row in of_sources if not _others(row.found, known)}
    borrowed = [row for row in of_sources if row.found.kind in kinds] + [row for row in of_sets if not row.validated]
    inner = max(_enough(validated), _enough([row for row in of_sources if row.found.kind not in kinds]), _NORMAL)
    return replace(steps, validated=round(inner, 3), borrowed=round(max(inner, _enough(borrowed)), 3))


def _named(data_set: DataSet) -> str:
    return steps_name(data_set.bundle, calibrated=data_set.kind.calibrated)


def _others(data_set: DataSet, known: Validated) -> bool:
    """Whether another source has its class."""
    return any(
        other.bundle == data_set.bundle and other.kind == data_set.kind and other.source != data_set.source
        for other in known.sets
    )


def _enough(rows: Sequence[LeftOut]) -> float:
    """Deviations that hold the level of rows, each row counting the same, and each data set by the root of its rows."""
    if not rows:
        return 0.0
    off = np.array([row.deviations for row in rows])
    order = np.argsort(off)
    widths = []
    for power in (0.0, 0.5):
        weights = np.array([row.found.n**-power for row in rows])[order]
        along = np.cumsum(weights) / weights.sum()
        widths.append(float(off[order][int(np.searchsorted(along, LEVEL - 1e-9))]))
    return max(widths)


def _what_tails_add(rows: Sequence[UserRow]) -> float:
    """Half-width of nine in ten differences between the error of a tail and that of its mean."""
    means: dict[tuple[Class, tuple[str, str, str], str], list[float]] = defaultdict(list)
    for row in rows:
        if row.quantity == "slowdown":
            means[row.kind, row.unit, row.case.rpartition(",")[0]].append(float(np.log(row.measured / row.simulated)))
    apart = [
        abs(float(np.log(row.measured / row.simulated)) - float(np.mean(mean)))
        for row in rows
        if row.quantity == "tail" and (mean := means.get((row.kind, row.unit, row.case.rpartition(",")[0])))
    ]
    return round(float(np.quantile(apart, LEVEL)), 4) if apart else 0.0
