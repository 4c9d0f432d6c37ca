"""How busy a neighbour was in each interval: idle, light or busy."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from cotenant.analyse.neighbours.totals import Floats

Level = Literal["idle", "light", "busy"]
LEVELS: tuple[Level, ...] = ("idle", "light", "busy")

IDLE_BELOW, BUSY_FROM = 0.02, 0.5
"""Shares of the neighbour's own top rate."""
TOP = 0.9
"""The quantile of its rates above zero that counts as its top: a single burst shall not define it."""
FEWEST = 6
"""Intervals at a level before anything is said about it."""


@dataclass(frozen=True, slots=True)
class Levels:
    """A neighbour's levels, and where they begin, in the unit of its activity per second."""

    light_from: float
    busy_from: float
    at: Floats
    """0 idle, 1 light, 2 busy; NaN unknown."""

    def seen(self, level: Level) -> int:
        """Intervals at a level."""
        return int((self.at == LEVELS.index(level)).sum())


def levels_of(rate: Floats) -> Levels:
    """Split a neighbour's activity by its own top."""
    known = rate[np.isfinite(rate) & (rate > 0)]
    top = float(np.quantile(known, TOP)) if known.size else 0.0
    light, busy = IDLE_BELOW * top, _round(BUSY_FROM * top)
    at = np.where(rate <= light, 0.0, np.where(rate >= busy, 2.0, 1.0)) if top else np.zeros(rate.size)
    return Levels(light, busy, np.where(np.isfinite(rate), at, np.nan))


def _round(value: float) -> float:
    """To two digits: the threshold is printed, so what is printed is what was used."""
    return float(f"{value:.2g}")
