"""A number with its interval: the form in which results leave the analysis, predictions and plans."""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

Ends = tuple[float, float]
"""Factors that widen an interval downwards and upwards."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its interval; an end is None where the data, or a validation, don't give it."""

    est: float
    lo: float | None = None
    hi: float | None = None

    @property
    def ends(self) -> Ends:
        """Both ends; a missing end is the estimate."""
        return self.est if self.lo is None else self.lo, self.est if self.hi is None else self.hi

    @property
    def relative_half_width(self) -> float | None:
        """Half the interval as a share of the estimate: 0.03 means ±3 %."""
        if self.lo is None or self.hi is None or self.est == 0:
            return None
        return (self.hi - self.lo) / 2 / abs(self.est)

    def scaled(self, factor: float, plus: float = 0.0) -> Self:
        """Multiplied by a positive factor, then increased."""
        lo, hi = (None if end is None else end * factor + plus for end in (self.lo, self.hi))
        return replace(self, est=self.est * factor + plus, lo=lo, hi=hi)

    def inverse(self, of: float = 1.0) -> Self:
        """A number divided by this."""
        lo, hi = (None if end is None else of / end for end in (self.hi, self.lo))
        return replace(self, est=of / self.est, lo=lo, hi=hi)

    def widened(self, ends: Ends, *, least: float = 0.0, most: float = math.inf) -> Self:
        """Widened by an error's factors, within the possible range."""
        lo, hi = self.ends
        low, high = lo * min(ends[0], 1.0), hi * max(ends[1], 1.0)
        return replace(self, lo=max(low, min(lo, least)), hi=min(high, max(hi, most)))


@dataclass(frozen=True, slots=True)
class Estimate(Interval):
    """An estimate with a 95 % interval and its origin. ``lo`` and ``hi`` are None where the data allows no interval."""

    n: int = 0
    """Independent replicates behind it (blocks or trials), or requests for a quantile, unfinished ones included."""
    method: str = ""
    """Method of the interval, in a few words."""
    needs_n: int | None = None
    """Requests needed for a missing end of a quantile's interval; None if nothing is missing."""
    reason: str | None = None
    """Why an end is missing."""

    def to_json(self) -> dict[str, Any]:
        """Plain data; ``needs_n`` and ``reason`` are present only if something is missing."""
        row = {"est": self.est, "lo": self.lo, "hi": self.hi, "n": self.n, "method": self.method}
        missing = {"needs_n": self.needs_n, "reason": self.reason}
        return row | {name: value for name, value in missing.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Missing:
    """An estimate that could not be made: the same shape, and the reason."""

    reason: str
    n: int = 0
    needs_n: int | None = None
    """Requests needed for a quantile; None if more would not help."""
    est: None = None
    lo: None = None
    hi: None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data; ``needs_n`` is present only if more requests would help."""
        row = {"est": None, "lo": None, "hi": None, "n": self.n, "reason": self.reason}
        return row if self.needs_n is None else row | {"needs_n": self.needs_n}


Number = Estimate | Missing
