"""Faulty sensors: stuck, silent or reset. Pure functions from readings to sentences."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
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
    """All faults in the readings of one device, keyed by sensor name: `power_w`, `energy_j`, ..."""
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
