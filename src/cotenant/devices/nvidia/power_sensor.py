"""What a power reading is worth: how often it changes, over what time it averages, and how much of the time it sees.

By architecture and driver, as measured on more than 70 GPUs by Yang, Adamek and Armour (arXiv 2312.02741); and on the
spot, by reading faster than the sensor changes.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Counter = Literal["usage", "average", "instant"]
"""nvmlDeviceGetPowerUsage, and the field values 185 and 186."""

GAIN_SHARE = 0.05
"""Steady readings beside an external meter: most cards within 5 %, nearly all too low (same source)."""
FEWEST_CHANGES = 4
SPLIT_DRIVER = "530"
"""The driver branch in which the average of Ampere and Ada was an instant reading."""


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


_FAST = {"usage": (20, 10), "instant": (20, 10)}
_PLAIN = {"usage": (100, 100), "instant": (100, 100)}
_QUARTER = {"usage": (100, 25), "instant": (100, 25)}
_AVERAGED = {"usage": (100, 1000), "average": (100, 1000), "instant": (100, 100)}
_HOPPER = {"usage": (100, 1000), "average": (100, 1000), "instant": (100, 25)}
_PUBLISHED: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "kepler": _PLAIN, "maxwell": _PLAIN, "pascal": _FAST, "volta": _FAST, "turing": _PLAIN, "ga100": _QUARTER,
    "ampere": _AVERAGED, "ada": _AVERAGED, "hopper": _HOPPER,
}  # fmt: skip
"""Update period and window in milliseconds, by architecture and counter."""


def expected(
    architecture: str, compute_capability: tuple[int, int], driver: str, counter: Counter
) -> PowerSensor | None:
    """What is published for this counter on this kind of GPU; None: the GPU doesn't have the counter."""
    kind = "ga100" if architecture == "ampere" and compute_capability == (8, 0) else architecture
    branch = driver.partition(".")[0]
    if kind in {"ampere", "ada"} and counter == "usage" and branch == SPLIT_DRIVER:
        return PowerSensor(counter, 0.1, 0.1)
    found = _PUBLISHED.get(kind, _HOPPER).get(counter)
    return None if found is None else PowerSensor(counter, found[0] / 1e3, found[1] / 1e3, known=kind in _PUBLISHED)


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


def watch(read: Callable[[], float], *, at_most_s: float = 0.7, pause_s: float = 0.002) -> tuple[Floats, Floats]:
    """Read fast until the value has changed often enough; gives times and values."""
    begin = time.monotonic()
    t_s, values = [0.0], [read()]
    changes = 0
    while t_s[-1] < at_most_s and changes < 3 * FEWEST_CHANGES:
        time.sleep(pause_s)
        values.append(read())
        t_s.append(time.monotonic() - begin)
        changes += values[-1] != values[-2]
    return np.array(t_s), np.array(values)
