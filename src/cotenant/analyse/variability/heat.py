"""How a GPU warms up: two poles and the air temperature fitted to power and temperature, tested on the last third.

T = air + fast + slow,    each pole: dx/dt = (resistance * P - x) / time constant
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cotenant.analyse.estimates.intervals import Floats

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
    found_one, _, late_one, tau_one = min(single, key=lambda one: one[1])
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
    """Least squares in which no pole cools: one that would is dropped."""
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
