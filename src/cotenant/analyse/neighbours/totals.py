"""Counters of running servers, as read: gaps, restarts and other clocks included; and what happened in each interval.

A server publishes totals since its start. Two readings give what happened between them, unless the server restarted
(the total falls) or wasn't reachable for a while (a gap): such stretches are unknown, never zero.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

GAP = 3.5
"""Readings further apart than this many usual distances have a gap between them."""


@dataclass(frozen=True, slots=True)
class Totals:
    """A counter's readings, in order of time."""

    t_s: Floats
    value: Floats

    @classmethod
    def of(cls, t_s: Sequence[float] | Floats, value: Sequence[float] | Floats) -> "Totals":
        """From any order; readings that aren't numbers, and repeated times, are dropped."""
        times, values = np.asarray(t_s, np.float64), np.asarray(value, np.float64)
        kept = np.isfinite(times) & np.isfinite(values)
        times, first = np.unique(times[kept], return_index=True)
        return cls(times, values[kept][first])

    @property
    def period_s(self) -> float:
        """Usual distance of two readings; NaN with fewer than two."""
        return float(np.median(np.diff(self.t_s))) if self.t_s.size > 1 else float("nan")

    @property
    def restarts(self) -> int:
        """How often the total fell: the server started again."""
        return int((np.diff(self.value) < 0).sum())

    def gaps(self) -> list[tuple[float, float]]:
        """Stretches without readings."""
        if self.t_s.size < 3:
            return []
        distance = np.diff(self.t_s)
        long = np.flatnonzero(distance > GAP * self.period_s)
        return [(float(self.t_s[at]), float(self.t_s[at + 1])) for at in long]

    def within(self, edges: Floats) -> Floats:
        """What was added between neighbouring edges; NaN where that isn't known.

        Between two readings the total is taken to grow evenly: servers are read at times of their own, and none of
        them lies exactly on an edge.
        """
        if self.t_s.size < 2:
            return np.full(edges.size - 1, np.nan)
        added = np.diff(self.value)
        unknown = (added < 0) | (np.diff(self.t_s) > GAP * self.period_s)
        grown = np.concatenate([[0.0], np.cumsum(np.where(unknown, 0.0, added))])
        totals = np.interp(edges, self.t_s, grown)
        found = np.diff(totals)
        outside = (edges[:-1] < self.t_s[0]) | (edges[1:] > self.t_s[-1])
        for at in np.flatnonzero(unknown):
            outside |= (edges[:-1] < self.t_s[at + 1]) & (edges[1:] > self.t_s[at])
        return np.where(outside, np.nan, found)


def summed(parts: Iterable[Totals]) -> Totals | None:
    """Several counters of a tenant together (models, engines, handlers); None without any.

    Each is first brought to the times of the first: they come from the same page, so the times usually agree.
    """
    every = [part for part in parts if part.t_s.size]
    if not every:
        return None
    times = every[0].t_s
    together = np.zeros(times.size)
    for part in every:
        together = together + (
            part.value if np.array_equal(part.t_s, times) else np.interp(times, part.t_s, part.value)
        )
    return Totals(times, together)
