"""What a power reading is worth: how often it changes, over what time it averages, and how much of the time it sees."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Counter = Literal["usage", "average", "instant"]
"""nvmlDeviceGetPowerUsage, and the field values 185 and 186."""

GAIN_SHARE = 0.05
"""Steady readings beside an external meter: most cards within 5 %, nearly all too low (arXiv 2312.02741)."""
FEWEST_CHANGES = 4


@dataclass(frozen=True, slots=True)
class PowerSensor:
    """How one counter of one GPU makes its values."""

    counter: Counter
    update_s: float
    """A new value comes this often."""
    window_s: float
    """It is the mean over this time before it."""
    known: bool = True
    """False: an architecture that nobody has published; taken to be like the newest that is."""
    measured_update_s: float | None = None
    """The update period as seen here."""

    @property
    def duty(self) -> float:
        """The share of the time that goes into any reading."""
        return min(1.0, self.window_s / self.update_s)

    @property
    def period_s(self) -> float:
        """The update period: as seen here, else as published."""
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
        blind = "" if self.duty == 1.0 else f", so it sees {self.duty:.0%} of the time"
        return f"{update}, mean of the last {self.window_s * 1e3:g} ms{blind}; within {GAIN_SHARE:.0%} of a meter"


def update_period_s(t_s: Floats, values: Floats) -> float | None:
    """How often a value that was read fast has changed: the mean time between changes, but for missed ones.

    None if it changed too rarely to say, or nearly at every reading (then it was read too slowly to say).
    """
    good = np.isfinite(values)
    t_s, values = t_s[good], values[good]
    changes = t_s[1:][np.diff(values) != 0]
    if changes.size < FEWEST_CHANGES + 1:
        return None
    gaps = np.diff(changes)
    usual = float(np.median(gaps))  # in steps of the readings; their mean is finer
    period = float(np.mean(gaps[np.abs(gaps - usual) < 0.5 * usual]))
    return None if period < 1.5 * float(np.median(np.diff(t_s))) else round(period, 4)
