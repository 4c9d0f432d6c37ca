"""Results of a validation: rows of simulated against measured, and error measures with baselines and targets.

Constants of the simulation are fitted on a documented part of each data set; rows of the other part carry
``held_out=True``, and every measure is taken over those alone.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Row:
    """A measured value with its simulation and baselines."""

    case: str
    """Description of the case: ``resnet50, batch 8, 3 processes, 4g``."""
    measured: float
    simulated: float
    baselines: Mapping[str, float] = field(default_factory=dict)
    """By the baseline's name: ``no interference``, ``constant``, ``plain roofline``, ..."""
    held_out: bool = True
    """False if a constant of the simulation was fitted with this row."""


@dataclass(frozen=True, slots=True)
class Target:
    """The target range of a measure."""

    low: float = -math.inf
    high: float = math.inf

    def reached_by(self, value: float) -> bool:
        """Whether the value is within the range; NaN never is."""
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of accuracy over held-out rows."""

    name: str
    """``mean abs. error of slowdown``."""
    value: float
    unit: str
    """``%`` (the value is then in per cent), a physical unit, or empty for a plain number."""
    n: int
    """Held-out rows behind it."""
    target: Target | None = None
    measured: float | None = None
    """The same figure in the measured data, if it describes a population instead of an error."""
    baselines: Mapping[str, float] = field(default_factory=dict)
    """The same measure for each trivial baseline."""
    fitted: float | None = None
    """The same measure on the rows used for fitting: much better than ``value`` indicates over-fitting."""

    @property
    def reached(self) -> bool | None:
        """None if there is no target, or no row to judge it by."""
        return None if self.target is None or not self.n else self.target.reached_by(self.value)


@dataclass(frozen=True, slots=True)
class Result:
    """A question to a data set."""

    data_set: str
    """The module's name: ``longhorn``."""
    what: str
    """One clause: ``2-5 processes under MPS on a whole GPU and inside MIG slices, solos given``."""
    source: str
    """The citation: authors, GPU, licence."""
    split: str
    """One sentence: what was fitted on which part, and what is held out."""
    quantity: str
    """Quantity of the rows: ``slowdown``, ``time``."""
    unit: str
    rows: tuple[Row, ...]
    measures: tuple[Measure, ...]
    notes: tuple[str, ...] = ()
    """Sentences: limits of the data, omissions and their reason."""
    left_out: tuple[str, ...] = ()
    """A sentence per reason for left-out rows."""

    @property
    def n(self) -> int:
        """All rows."""
        return len(self.rows)

    @property
    def n_held_out(self) -> int:
        """Rows no constant was fitted on."""
        return sum(row.held_out for row in self.rows)

    @property
    def missed(self) -> tuple[Measure, ...]:
        """Measures that miss their target."""
        return tuple(measure for measure in self.measures if measure.reached is False)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A data set that was not compared."""

    data_set: str
    why: str
    """A sentence."""
    damaged: bool
    """True if its file exists but can't be used; False if there is no such file."""


def held_out(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows no constant was fitted on."""
    return tuple(row for row in rows if row.held_out)


def fitted_on(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows that constants were fitted on."""
    return tuple(row for row in rows if not row.held_out)
