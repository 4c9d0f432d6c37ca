"""How far a new data set lies from those that were compared: a range that widens with what sets it apart.

A data set is a model on a GPU, as one version of one source measured it. Errors of the simulation are alike within a
data set, so that its rows count as one observation of what a new data set may show. The logarithm of measured over
simulated is taken as a sum of effects, one for each property that data sets share or don't: the software, its phase,
the family of GPUs, the way to share, special ways to execute (several GPUs, experts, quantised weights), the source,
the set itself. Each has a standard deviation, its *step*, learnt from how errors differ between data sets
(`validation/users/ranges.py`). Data sets that share a property with the one asked for say something of its effect; a
property that none of them has widens the range by its step.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cotenant.prediction.kernels.columns import Floats

if TYPE_CHECKING:
    from cotenant.prediction.trust import Class

Bundle = str
"""`alone` or `slowdown`: quantities whose errors are compared with each other."""
SOURCE, SET, UNFITTED = "source", "data set", "software without constants of its own"
SPECIAL = ("several GPUs", "experts", "format")
FITTED_SOFTWARE = frozenset({"eager", "vllm", "onnxruntime", "tensorrt"})
"""Software whose host costs were fitted to measurements. Data sets of others, simulated by the closest of these, tell
how far off such constants are."""
MOST_ROWS = 9
"""More rows of a data set don't tell more of its mean: their errors are alike."""
_MOST_OF_SPREAD, _PRIOR_ROWS = 6, 4
"""Rows of a data set that count for the spread within a class, and those that the spread of all classes counts for."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """Errors of a data set in a class."""

    kind: "Class"
    bundle: Bundle
    source: str
    model: str
    gpu: str
    n: int
    mean: float
    """Mean logarithm of measured over simulated."""
    spread: float
    """Standard deviation within."""
    mean_error: float
    weight: float = 1.0
    """Below 1 if it lies so far off that it says less about others."""


@dataclass(frozen=True, slots=True)
class EffectSteps:
    """Steps of a bundle, and the spread of rows within a data set."""

    effects: Mapping[str, float]
    within: float
    validated: float
    """Standard deviations on each side of a range that holds nine in ten rows of data sets left out, where others of
    the class were compared..."""
    borrowed: float
    """... and where none or one was."""

    def step(self, name: str) -> float:
        """A property's step; the largest known if no two data sets show it."""
        return self.effects.get(name, max(self.effects.values()))


Key = Callable[["Class"], object]


def effects_of(bundle: Bundle) -> Mapping[str, Key]:
    """What data sets have in common, by the effect's name; None where an effect doesn't apply."""
    if bundle == "alone":
        common: dict[str, Key] = {
            "software": lambda kind: kind.software,
            "phase": lambda kind: (kind.software, kind.phase),
            "family": lambda kind: (kind.software, kind.family),
            UNFITTED: lambda kind: None if kind.software in FITTED_SOFTWARE else kind.software,
        }
    else:
        common = {
            "sharing": lambda kind: kind.sharing,
            "phase": lambda kind: (kind.sharing, kind.software, kind.phase),
            "family": lambda kind: (kind.sharing, kind.family),
        }
    several, experts, of_format = SPECIAL
    return common | {
        several: lambda kind: kind.software if kind.parallel else None,
        experts: lambda kind: kind.software if kind.experts else None,
        of_format: lambda kind: (kind.software, kind.format) if kind.format else None,
    }


def likeness(bundle: Bundle, first: "Sequence[Class]", second: "Sequence[Class]") -> dict[str, Floats]:
    """By effect: classes of the first x those of the second, 1 where they share it."""
    tables = {}
    for name, key in effects_of(bundle).items():
        left, right = [key(kind) for kind in first], [key(kind) for kind in second]
        tables[name] = _equal(left, right) * np.array([value is not None for value in left])[:, None]
    return tables


def same_source(sets: Sequence[DataSet]) -> Floats:
    """Data sets x data sets: whether the same source measured both with the same software and sharing."""
    keys = [(data_set.source, data_set.kind.software, data_set.kind.sharing) for data_set in sets]
    return _equal(keys, keys)


def _equal(first: Sequence[object], second: Sequence[object]) -> Floats:
    """Values of the first x those of the second: 1 where they are equal."""
    numbers: dict[object, int] = {}
    left, right = (
        np.array([numbers.setdefault(value, len(numbers)) for value in values]) for values in (first, second)
    )
    return np.asarray(left[:, None] == right[None, :], np.float64)


def own_spread(data_set: DataSet, usual: float) -> float:
    """Variance of a data set's rows, drawn towards the usual variance if they are few."""
    rows = min(data_set.n - 1, _MOST_OF_SPREAD)
    return (rows * data_set.spread**2 + 3 * usual**2) / (rows + 3)


class Between:
    """Data sets of a bundle, and what they say about the next."""

    def __init__(self, bundle: Bundle, sets: Sequence[DataSet], steps: EffectSteps) -> None:
        self.bundle, self.sets, self.steps = bundle, sets, steps
        if not sets:
            return
        kinds = [data_set.kind for data_set in sets]
        usual = float(np.median([data_set.spread for data_set in sets if data_set.n > 2] or [steps.within]))
        shared = likeness(bundle, kinds, kinds)
        within = sum(steps.step(name) ** 2 * table for name, table in shared.items())
        within = within + steps.step(SOURCE) ** 2 * same_source(sets)
        own = [steps.step(SET) ** 2 + own_spread(data_set, usual) / min(data_set.n, MOST_ROWS) for data_set in sets]
        within = np.asarray(within + np.diag(own))
        within[np.diag_indices_from(within)] /= [data_set.weight for data_set in sets]
        self._factor = np.linalg.inv(within)
        self._alpha = self._factor @ np.array([data_set.mean for data_set in sets])

    def expected(self, kind: "Class") -> tuple[float, float]:
        """Mean and standard deviation of the logarithm of measured over simulated, of a row of a new source."""
        effects = effects_of(self.bundle)
        own = sum(self.steps.step(name) ** 2 for name, key in effects.items() if key(kind) is not None)
        own += self.steps.step(SOURCE) ** 2 + self.steps.step(SET) ** 2
        mean = 0.0
        if self.sets:
            shared = likeness(self.bundle, [kind], [data_set.kind for data_set in self.sets])
            across = np.asarray(sum(self.steps.step(name) ** 2 * table[0] for name, table in shared.items()))
            mean = float(across @ self._alpha)
            own = max(own - float(across @ self._factor @ across), 0.0)
        return mean, math.sqrt(own + self.spread_within(kind))

    def spread_within(self, kind: "Class") -> float:
        """Variance of rows within a data set of this class: that of its software, phase and way to share, if known."""
        alike = [
            data_set
            for data_set in self.sets
            if data_set.n > 1
            and (data_set.kind.software, data_set.kind.phase, data_set.kind.sharing)
            == (kind.software, kind.phase, kind.sharing)
        ]
        rows = [min(data_set.n - 1, _MOST_OF_SPREAD) for data_set in alike]
        squares = sum(count * data_set.spread**2 for count, data_set in zip(rows, alike, strict=True))
        return float((squares + _PRIOR_ROWS * self.steps.within**2) / (sum(rows) + _PRIOR_ROWS))

    def like(self, kind: "Class") -> int:
        """Number of data sets that share a property with this class."""
        if not self.sets:
            return 0
        shared = likeness(self.bundle, [kind], [data_set.kind for data_set in self.sets])
        return int(np.count_nonzero(sum(table[0] for table in shared.values())))

    def own(self, kind: "Class") -> list[DataSet]:
        """Data sets of exactly this class."""
        return [data_set for data_set in self.sets if data_set.kind == kind]

    def range_of(self, kind: "Class") -> tuple[float, float]:
        """Ends of nine in ten values of measured over simulated, as logarithms."""
        mean, deviation = self.expected(kind)
        validated = len(self.own(kind)) > 1
        half = deviation * (self.steps.validated if validated else self.steps.borrowed)
        return mean - half, mean + half


def comparable(sets: Sequence[DataSet], bundle: Bundle, *, calibrated: bool) -> list[DataSet]:
    """Data sets of a bundle with the same knowledge of solo times; of ways to share known without only, those."""
    mine = [data_set for data_set in sets if data_set.bundle == bundle]
    same = [data_set for data_set in mine if data_set.kind.calibrated == calibrated]
    ways = {data_set.kind.sharing for data_set in same}
    return same + [data_set for data_set in mine if data_set.kind.sharing not in ways]
