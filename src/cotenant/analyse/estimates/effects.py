"""Size of a difference as a ratio, and how likely it would be by chance."""

import math
from dataclasses import dataclass

import numpy as np

from cotenant.analyse.estimates.estimate import Estimate
from cotenant.analyse.estimates.intervals import Numbers, student_t


@dataclass(frozen=True, slots=True)
class RatioEffect:
    """A ratio with its interval and the inputs for tests."""

    ratio: Estimate
    log_ratio: float
    standard_error: float
    """Standard error of the log ratio."""
    df: float
    standardised: float | None
    """Log ratio over the spread of its replicates, corrected for few replicates (Hedges' g); None without spread."""
    p_value: float
    """Two-sided p-value against a ratio of 1."""


def independent_effect(values: Numbers, baseline: Numbers, level: float = 0.95) -> RatioEffect:
    """Ratio of two geometric means of independent positive replicates (Welch).

    Assumes independent replicates whose logarithms have roughly normal means; the spreads may differ.
    """
    a, b = (np.log(np.asarray(x, dtype=np.float64)) for x in (values, baseline))
    if a.size < 2 or b.size < 2:
        raise ValueError("an effect needs at least two replicates on either side")
    part_a, part_b = float(a.var(ddof=1)) / a.size, float(b.var(ddof=1)) / b.size
    error = math.sqrt(part_a + part_b)
    df = (
        (part_a + part_b) ** 2 / (part_a**2 / (a.size - 1) + part_b**2 / (b.size - 1)) if error else a.size + b.size - 2
    )
    log_ratio = float(a.mean() - b.mean())
    half = student_t(df, level) * error
    ratio = Estimate(
        math.exp(log_ratio),
        math.exp(log_ratio - half),
        math.exp(log_ratio + half),
        min(a.size, b.size),
        "Welch t on logs",
    )
    return _effect(ratio, log_ratio, math.sqrt((float(a.var(ddof=1)) + float(b.var(ddof=1))) / 2), error, df)


def _effect(ratio: Estimate, log_ratio: float, spread: float, error: float, df: float) -> RatioEffect:
    from scipy import special

    if error == 0:
        return RatioEffect(ratio, log_ratio, 0.0, df, None, 1.0 if log_ratio == 0 else 0.0)
    p_value = 2 * float(special.stdtr(df, -abs(log_ratio / error)))
    return RatioEffect(ratio, log_ratio, error, df, log_ratio / spread * (1 - 3 / (4 * df - 1)), p_value)
