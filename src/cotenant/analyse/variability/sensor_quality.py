"""Sensor quality: compare two sensors of the same quantity, and find sensors that are stuck."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cotenant.analyse.estimates.intervals import Floats

WINDOWS_S = (0.0, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Averaging windows known from vendors' tools."""
_LAGS = 81
_PARTS = 10
"""Number of stretches to cut the traces into: every other stretch is fitted, the rest is tested on."""
STILL_READINGS = 20
STILL_S = 5.0
"""Tools that poll faster than a sensor updates, or average over a second, repeat values for less than this."""
MOVED = {"temperature_c": 5.0, "any_kernel_share": 0.3}
"""Change required elsewhere before a constant power reading is suspect. Clocks don't count: where power is held at a
cap, they are what moves instead."""
GAP = 20
"""A pause of this many times the usual interval between readings ends a stretch."""


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
    """Error of taking either reading for the other."""
    n: int


def compare_sensors(
    reference_s: Floats, reference: Floats, other_s: Floats, other: Floats, *, most_lag_s: float = 2.0
) -> SensorComparison:
    """Fit a sensor's offset, gain, lag and averaging window to a finer sensor of the same quantity (a rail's meter).

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
    """A stretch in which a sensor stood still while a related sensor moved."""

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


# --- how a GPU warms up: two poles and the air temperature fitted to power and temperature, tested on the last third

LEARNT = 2 / 3
_FAST, _SLOW = 8, 14
MOST_POINTS = 4000


@dataclass(frozen=True, slots=True)
class HeatFit:
    """Resistances in C per W, time constants in s."""

    air_c: float
    fast_c_per_w: float
    fast_s: float
    slow_c_per_w: float
    slow_s: float
    held_out_rmse_c: float
    """Error on the last third of the trace, predicted from power alone."""
    one_pole_rmse_c: float
    """The same for a single pole."""
    span_s: float
    """A time constant longer than the trace can't be determined."""


def fit_heat(at_s: Floats, power_w: Floats, temperature_c: Floats) -> HeatFit:
    """Search the time constants; the rest is least squares.

    Raises:
        ValueError: Fewer than 30 readings, power and temperature hardly move, or they are unrelated.
    """
    if at_s.size < 30 or np.ptp(power_w) < 1e-9 or np.ptp(temperature_c) < 1.0:
        raise ValueError("a thermal fit needs 30 readings over which power and temperature move")
    span = float(at_s[-1] - at_s[0])
    grid = np.linspace(0.0, span, int(min(at_s.size, MOST_POINTS)))
    power, heat = (np.interp(grid, at_s - at_s[0], values) for values in (power_w, temperature_c))
    step = float(grid[1])
    learnt = grid <= LEARNT * span
    fast = np.geomspace(max(step, 0.05), max(2 * step, 2.0), _FAST)
    slow = np.geomspace(max(4 * step, 4.0), max(8 * step, span, 8.0), _SLOW)
    fast_poles, slow_poles = ([_pole(power, step, tau) for tau in taus] for taus in (fast, slow))
    best, least = None, np.inf
    for quick, tau_fast in zip(fast_poles, fast, strict=True):
        for late, tau_slow in zip(slow_poles, slow, strict=True):
            found, rest = _solved(grid, learnt, heat, [quick, late], float(tau_slow))
            if rest < least and found[1] + found[2] > 0:
                best, least = (found, float(tau_fast), float(tau_slow), quick, late), rest
    if best is None:
        raise ValueError("temperature does not rise with power")
    single = [
        (*_solved(grid, learnt, heat, [late], float(tau)), late, float(tau))
        for late, tau in zip(slow_poles, slow, strict=True)
    ]
    found_one, _, late_one, tau_one = min(single, key=lambda fit: fit[1])
    found, tau_fast, tau_slow, quick, late = best
    held_out = _error(_terms(grid, [quick, late], tau_slow) @ found, heat, ~learnt)
    if held_out >= _error(np.full_like(heat, heat[learnt].mean()), heat, ~learnt):
        raise ValueError("power predicts the temperature in the last third of the trace no better than its mean before")
    return HeatFit(
        air_c=float(found[0]),
        fast_c_per_w=float(found[1]),
        fast_s=tau_fast,
        slow_c_per_w=float(found[2]),
        slow_s=tau_slow,
        held_out_rmse_c=held_out,
        one_pole_rmse_c=_error(_terms(grid, [late_one], tau_one) @ found_one, heat, ~learnt),
        span_s=span,
    )


def _pole(power: Floats, step: float, tau: float) -> Floats:
    """The power as filtered by a pole, exact for power constant over each step; settled before the trace began."""
    from scipy.signal import lfilter

    keep = float(np.exp(-step / tau))
    smoothed, _ = lfilter([0.0, 1 - keep], [1.0, -keep], power - power[0], zi=[0.0])
    return np.asarray(smoothed + power[0])


def _terms(grid: Floats, poles: list[Floats], tau_slow: float) -> Floats:
    """The last column allows for a trace that did not begin settled."""
    return np.stack([np.ones_like(grid), *poles, np.exp(-grid / tau_slow)], axis=1)


def _solved(grid: Floats, learnt: Any, heat: Floats, poles: list[Floats], tau_slow: float) -> tuple[Floats, float]:
    """Least squares in which no pole cools: a pole that would is dropped."""
    terms = _terms(grid, poles, tau_slow)
    kept = np.ones(terms.shape[1], dtype=bool)
    found = np.zeros(terms.shape[1])
    while True:
        found[:] = 0.0
        found[kept] = np.linalg.lstsq(terms[learnt][:, kept], heat[learnt], rcond=None)[0]
        cooling = np.flatnonzero(found[1 : 1 + len(poles)] < 0) + 1
        if not cooling.size:
            break
        kept[cooling[np.argmin(found[cooling])]] = False
    return found, float(((terms[learnt] @ found - heat[learnt]) ** 2).sum())


def _error(guess: Floats, truth: Floats, chosen: Any) -> float:
    return float(np.sqrt(np.mean((guess[chosen] - truth[chosen]) ** 2)))
