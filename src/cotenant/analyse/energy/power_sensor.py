"""Properties of a power sensor: its update period, its averaging window, and the share of time it sees."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from cotenant.text import percent

Floats = npt.NDArray[np.float64]
Counter = Literal["usage", "average", "instant"]
"""nvmlDeviceGetPowerUsage, and the field values 185 and 186."""

GAIN_SHARE = 0.05
"""Steady readings beside an external meter: most cards within 5 %, nearly all too low (arXiv 2312.02741)."""
FEWEST_CHANGES = 4


@dataclass(frozen=True, slots=True)
class PowerSensor:
    """How one counter of one GPU produces its values."""

    counter: Counter
    update_s: float
    """Update period."""
    window_s: float
    """Averaging window: a value is the mean over this time before it."""
    known: bool = True
    """False: no published figures for this architecture; assumed to behave like the newest one that has them."""
    measured_update_s: float | None = None
    """Update period as observed on this machine."""

    @property
    def duty(self) -> float:
        """Share of time covered by readings."""
        return min(1.0, self.window_s / self.update_s)

    @property
    def period_s(self) -> float:
        """Update period: as observed, else as published."""
        return self.measured_update_s or self.update_s

    @property
    def quality(self) -> str:
        """One clause for the record."""
        seen = self.measured_update_s
        update = (
            f"new value every {self.update_s * 1e3:g} ms ({'published' if self.known else 'assumed'})"
            if seen is None
            else f"new value every {seen * 1e3:.0f} ms (measured here; {self.update_s * 1e3:g} ms published)"
        )
        blind = "" if self.duty == 1.0 else f", so it sees {percent(self.duty)} of the time"
        return f"{update}, mean of the last {self.window_s * 1e3:g} ms{blind}; within {percent(GAIN_SHARE)} of a meter"


def update_period_s(t_s: Floats, values: Floats) -> float | None:
    """Estimate the update period of a value from fast polling: the mean time between changes, missed ones aside.

    None if it changed too rarely, or at nearly every reading (then polling was too slow).
    """
    good = np.isfinite(values)
    t_s, values = t_s[good], values[good]
    changes = t_s[1:][np.diff(values) != 0]
    if changes.size < FEWEST_CHANGES + 1:
        return None
    gaps = np.diff(changes)
    usual = float(np.median(gaps))  # Single intervals are multiples of the polling period; their mean is finer.
    period = float(np.mean(gaps[np.abs(gaps - usual) < 0.5 * usual]))
    return None if period < 1.5 * float(np.median(np.diff(t_s))) else round(period, 4)
