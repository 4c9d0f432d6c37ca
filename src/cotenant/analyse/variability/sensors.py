"""Sensor quality: compare two sensors of the same quantity, and find sensors that are stuck."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cotenant.analyse.estimates.intervals import Floats

WINDOWS_S = (0.0, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Averaging windows known from vendors' tools."""
_LAGS = 81
_PARTS = 10
"""Number of stretches to cut the traces into: every other one is fitted, the rest is tested on."""
STILL_READINGS = 20
STILL_S = 5.0
"""Tools that poll faster than a sensor updates, or average over a second, repeat values for less than this."""
MOVED = {"temperature_c": 5.0, "any_kernel_share": 0.3}
"""Change required elsewhere before a constant power reading is suspect. Clocks don't count: where power is held at a
cap, they are what moves instead."""
GAP = 20
"""A pause of this many times the usual one between readings ends a stretch."""


@dataclass(frozen=True, slots=True)
class SensorComparison:
    """The second sensor explained by the first: shown = offset + gain * mean of the reference over the window."""

    offset: float
    gain: float
    lag_s: float
    """Delay of the second sensor, beyond half its window."""
    window_s: float
    held_out_rmse: float
    """Error on stretches that were not fitted."""
    uncorrected_rmse: float
    """Error of taking one reading for the other."""
    n: int


def compare_sensors(
    reference_s: Floats, reference: Floats, other_s: Floats, other: Floats, *, most_lag_s: float = 2.0
) -> SensorComparison:
    """Fit offset, gain, lag and averaging window of a sensor against a finer one of the same quantity (a rail's meter).

    Raises:
        ValueError: They don't overlap for ten readings, or the reference never moves.
    """
    reach = most_lag_s + WINDOWS_S[-1]
    inside = (other_s >= reference_s[0] + reach) & (other_s <= reference_s[-1] - most_lag_s)
    at, shown = other_s[inside], np.asarray(other[inside], dtype=np.float64)
    if at.size < STILL_READINGS or np.ptp(reference) == 0:
        raise ValueError("two sensors need 20 readings in common, well inside the reference, and something that moves")
    integral = np.concatenate(([0.0], np.cumsum(np.diff(reference_s) * (reference[1:] + reference[:-1]) / 2)))
    part = np.floor((at - at[0]) / max(float(np.ptp(at)), 1e-9) * _PARTS * 0.999).astype(int)
    learnt = part % 2 == 0

    def expected(lag: float, window: float) -> Floats:
        if window == 0:
            return np.asarray(np.interp(at - lag, reference_s, reference))
        ends = np.interp(at - lag, reference_s, integral), np.interp(at - lag - window, reference_s, integral)
        return np.asarray((ends[0] - ends[1]) / window)

    def badness(lag: float, window: float) -> float:
        _, _, rest = _line(expected(lag, window)[learnt], shown[learnt])
        return rest

    lags = np.linspace(-most_lag_s / 4, most_lag_s, _LAGS)
    step = float(lags[1] - lags[0])
    for _ in range(3):
        lag, window = min(((lag, window) for window in WINDOWS_S for lag in lags), key=lambda pair: badness(*pair))
        lags = np.linspace(lag - step, lag + step, 21)
        step /= 10
    guess = expected(float(lag), window)
    gain, offset, _ = _line(guess[learnt], shown[learnt])
    judged = ~learnt if (~learnt).any() else learnt
    plain = np.interp(at, reference_s, reference)
    return SensorComparison(
        offset=offset,
        gain=gain,
        lag_s=float(lag),
        window_s=window,
        held_out_rmse=float(np.sqrt(np.mean((offset + gain * guess[judged] - shown[judged]) ** 2))),
        uncorrected_rmse=float(np.sqrt(np.mean((plain - shown) ** 2))),
        n=int(at.size),
    )


def longest_stretch(at_s: Floats, values: Floats) -> tuple[Floats, Floats]:
    """The longest run of readings without a pause."""
    pauses = np.diff(at_s)
    breaks = np.flatnonzero(pauses > GAP * np.median(pauses)) + 1 if pauses.size else np.empty(0, np.int64)
    bounds = [0, *breaks.tolist(), at_s.size]
    a, b = max(itertools.pairwise(bounds), key=lambda ends: ends[1] - ends[0])
    return at_s[a:b], values[a:b]


@dataclass(frozen=True, slots=True)
class Stuck:
    """A stretch in which a sensor stood still while a related one moved."""

    sensor: str
    value: float
    from_s: float
    to_s: float
    readings: int
    witness: str
    witness_from: float
    witness_to: float


def stuck(sensor: str, at_s: Floats, values: Floats, witnesses: Mapping[str, Floats]) -> Stuck | None:
    """The longest such stretch of at least 20 readings and 5 s, if any; witnesses are sensors read alongside."""
    pauses = np.diff(at_s)
    broken = pauses > GAP * np.median(pauses) if pauses.size else pauses > 0
    changes = np.flatnonzero((np.diff(values) != 0) | broken) + 1
    bounds = np.concatenate(([0], changes, [values.size]))
    lengths = np.diff(bounds)
    for place in np.argsort(-lengths)[:5].tolist():
        a, b = int(bounds[place]), int(bounds[place + 1])
        if b - a < STILL_READINGS or at_s[b - 1] - at_s[a] < STILL_S or not np.isfinite(values[a]):
            continue
        for name, witness in witnesses.items():
            seen = witness[a:b][np.isfinite(witness[a:b])]
            if name in MOVED and seen.size and float(np.ptp(seen)) >= MOVED[name]:
                return Stuck(
                    sensor,
                    float(values[a]),
                    float(at_s[a]),
                    float(at_s[b - 1]),
                    b - a,
                    name,
                    float(seen[0]),
                    float(seen[np.argmax(np.abs(seen - seen[0]))]),
                )
    return None


def _line(x: Floats, y: Floats) -> tuple[float, float, float]:
    """Slope, intercept and mean squared residual."""
    centred = x - x.mean()
    square = float(centred @ centred)
    gain = float(centred @ (y - y.mean())) / square if square > 0 else 0.0
    offset = float(y.mean() - gain * x.mean())
    return gain, offset, float(np.mean((y - offset - gain * x) ** 2))
