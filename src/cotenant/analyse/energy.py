"""Energy over a time span, with its error; or the reason why none can be given."""

from collections.abc import Mapping
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
    """How a counter of a GPU produces its values."""

    counter: Counter
    update_s: float
    """Update period."""
    window_s: float
    """Averaging window: a value is the mean over this time before it."""
    known: bool = True
    """False: no published figures for this architecture; assumed to behave like the newest that has them."""
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


Source = Literal["counter", "power"]

COVERED_SHARE = 0.8
"""A counter whose readings cover less of the span says too little about the rest."""
LONGEST_SILENCE_S = 1.0


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy of a device over a time span."""

    joules: float | None
    """None: see ``refused``."""
    uncertainty_j: float = 0.0
    """Possible error, up or down: the meter's gain, the edges of the span, and what the sensor didn't see."""
    source: Source = "counter"
    n: int = 0
    """Readings behind it."""
    refused: str | None = None


def from_counter(t_s: Floats, joules: Floats, begin_s: float, end_s: float, sensor: PowerSensor) -> Energy:
    """From the driver's energy counter: exact apart from its gain and an update at either edge."""
    t_s, joules = _within(t_s, joules, begin_s, end_s, sensor)
    if (why := _too_short(begin_s, end_s, sensor)) is not None:
        return _refused(why, "counter")
    if t_s.size < 2:
        return _refused("the energy counter was read less than twice in the time span", "counter")
    if resets(joules).size:
        return _refused("the energy counter was reset in the time span: the driver was reloaded", "counter")
    first, last = max(begin_s, float(t_s[0])), min(end_s, float(t_s[-1]))
    if last - first < COVERED_SHARE * (end_s - begin_s):
        return _refused(
            f"the energy counter was read for only {max(0.0, last - first):.1f} s of the time span", "counter"
        )
    mean_w = float(np.interp(last, t_s, joules) - np.interp(first, t_s, joules)) / (last - first)
    used = mean_w * (end_s - begin_s)
    edges = mean_w * (sensor.period_s * np.sqrt(2) + (end_s - last) + (first - begin_s))
    return Energy(used, float(np.hypot(GAIN_SHARE * used, edges)), "counter", int(t_s.size))


def from_power(t_s: Floats, watts: Floats, begin_s: float, end_s: float, sensor: PowerSensor) -> Energy:
    """From power readings: each value stands for the time since the previous reading, observed or not."""
    t_s, watts = _within(t_s, watts, begin_s, end_s, sensor)
    if (why := _too_short(begin_s, end_s, sensor)) is not None:
        return _refused(why, "power")
    if t_s.size < 2:
        return _refused("power was read less than twice in the time span", "power")
    silence = float(np.max(np.diff(np.concatenate(([begin_s], np.clip(t_s, begin_s, end_s), [end_s])))))
    if silence > max(LONGEST_SILENCE_S, 10 * sensor.period_s):
        return _refused(f"power gave no reading for {silence:.1f} s of the time span", "power")
    grid = np.unique(np.concatenate((t_s[(t_s > begin_s) & (t_s < end_s)], [begin_s, end_s])))
    shown = np.interp(grid, t_s, watts)
    used = float(np.sum(np.diff(grid) * (shown[1:] + shown[:-1]) / 2))
    spread = float(np.std(watts))
    updates = max(1.0, (end_s - begin_s) / sensor.period_s)
    unseen = (end_s - begin_s) * spread * np.sqrt((1 - sensor.duty) / updates)
    lag = abs(float(shown[-1] - shown[0])) * sensor.window_s / 2
    edges = used / (end_s - begin_s) * sensor.period_s * np.sqrt(2)
    return Energy(
        used, float(np.sqrt((GAIN_SHARE * used) ** 2 + unseen**2 + lag**2 + edges**2)), "power", int(t_s.size)
    )


def shortest_s(sensor: PowerSensor) -> float:
    """Shorter spans are refused: a reading may belong to another averaging window or update."""
    return max(sensor.window_s, sensor.period_s)


def _too_short(begin_s: float, end_s: float, sensor: PowerSensor) -> str | None:
    least = shortest_s(sensor)
    if end_s - begin_s >= least:
        return None
    length = f"{(end_s - begin_s) * 1e3:.0f} ms"
    return f"a time span of {length} is shorter than the sensor's resolution, {least * 1e3:.0f} ms"


def _within(t_s: Floats, values: Floats, begin_s: float, end_s: float, sensor: PowerSensor) -> tuple[Floats, Floats]:
    """The readings within the span, plus a neighbour on either side."""
    good = np.isfinite(values)
    t_s, values = t_s[good], values[good]
    around = max(0.2, 2 * sensor.period_s)
    near = (t_s >= begin_s - around) & (t_s <= end_s + around)
    return t_s[near], values[near]


def _refused(why: str, source: Source) -> Energy:
    return Energy(None, source=source, refused=why)


# --- faulty sensors: stuck, silent or reset. Pure functions from readings to sentences

Series = tuple[Floats, Floats]
"""Times in seconds, and values."""

STUCK_S = 2.0
"""A power reading that is constant for this long while related readings move is stuck."""
WARMED_C = 3.0
MOVED_CLOCK_SHARE = 0.05
DISAGREE_SHARE = 0.3
SILENT_S = 2.0
"""Longer than a busy machine delays the sampler."""


def resets(values: Floats) -> npt.NDArray[np.int64]:
    """Indices of the first value after each reset of a counter that should only grow."""
    return np.flatnonzero(np.diff(values) < 0).astype(np.int64) + 1


def stuck(
    power: Series, *, temperature: Series | None = None, clock: Series | None = None, energy: Series | None = None
) -> str | None:
    """Why a power reading is not credible, or None.

    A constant reading alone proves nothing: an idle GPU may draw the same power for seconds. It is stuck if meanwhile
    the temperature changed, the clock moved, or the energy counter implies a different power.
    """
    t_s, watts = _readable(power)
    if t_s.size < 3 or t_s[-1] - t_s[0] < STUCK_S or np.ptp(watts) > 0:
        return None
    stood = f"power stood still at {watts[0]:.2f} W for {t_s[-1] - t_s[0]:.0f} s"
    if temperature is not None:
        _, degrees = _readable(temperature)
        if degrees.size and np.ptp(degrees) >= WARMED_C:
            return f"{stood} while the temperature went from {degrees.min():.0f} to {degrees.max():.0f} °C"
    if clock is not None:
        _, mhz = _readable(clock)
        if mhz.size and np.ptp(mhz) > MOVED_CLOCK_SHARE * mhz.max():
            return f"{stood} while the clock went from {mhz.min():.0f} to {mhz.max():.0f} MHz"
    if energy is not None:
        t, joules = _readable(energy)
        if t.size >= 2 and not resets(joules).size and t[-1] - t[0] >= STUCK_S:
            counted = float((joules[-1] - joules[0]) / (t[-1] - t[0]))
            if abs(counted - watts[0]) > DISAGREE_SHARE * max(counted, float(watts[0])):
                return f"{stood} while the energy counter implies {counted:.0f} W"
    return None


def stopped(energy: Series, power: Series | None = None) -> str | None:
    """Why an energy counter is not credible, or None: it was reset, or stood still under power."""
    t_s, joules = _readable(energy)
    again = resets(joules)
    if again.size:
        return f"the energy counter was reset {again.size}x: was the driver reloaded?"
    if t_s.size >= 3 and t_s[-1] - t_s[0] >= STUCK_S and np.ptp(joules) == 0 and power is not None:
        _, watts = _readable(power)
        if watts.size and float(np.mean(watts)) > 1.0:
            return f"the energy counter stood still for {t_s[-1] - t_s[0]:.0f} s at {float(np.mean(watts)):.0f} W"
    return None


def silent(series: Series, name: str) -> str | None:
    """The longest gap between two values, if it is too long to be chance."""
    t_s, _ = _readable(series)
    longest = float(np.max(np.diff(t_s))) if t_s.size >= 2 else 0.0
    return f"{name} gave no value for {longest:.1f} s" if longest > SILENT_S else None


def faults(readings: Mapping[str, Series]) -> tuple[str, ...]:
    """All faults in the readings of a device, keyed by sensor name: `power_w`, `energy_j`, ..."""
    power, energy = readings.get("power_w"), readings.get("energy_j")
    found = []
    if power is not None:
        found.append(
            stuck(
                power,
                temperature=readings.get("temperature_c"),
                clock=readings.get("sm_clock_mhz"),
                energy=energy,
            )
        )
        found.append(silent(power, "power_w"))
    if energy is not None:
        found.append(stopped(energy, power))
    return tuple(sentence for sentence in found if sentence is not None)


def _readable(series: Series) -> Series:
    t_s, values = series
    good = np.isfinite(values)
    return t_s[good], values[good]
