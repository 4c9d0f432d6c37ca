"""Size of a difference as a ratio, and how likely it would be by chance."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.analyse.estimates.distributions import student_t, t_cdf, t_quantile
from cotenant.analyse.estimates.intervals import Floats, Numbers
from cotenant.tenancy.interval import Estimate


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


def independent_effect(values: Numbers, baseline: Numbers) -> RatioEffect:
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
    half = student_t(df) * error
    ratio = Estimate(
        math.exp(log_ratio),
        math.exp(log_ratio - half),
        math.exp(log_ratio + half),
        min(a.size, b.size),
        "Welch t on logs",
    )
    return _effect(ratio, log_ratio, math.sqrt((float(a.var(ddof=1)) + float(b.var(ddof=1))) / 2), error, df)


def _effect(ratio: Estimate, log_ratio: float, spread: float, error: float, df: float) -> RatioEffect:
    if error == 0:
        return RatioEffect(ratio, log_ratio, 0.0, df, None, 1.0 if log_ratio == 0 else 0.0)
    p_value = 2 * t_cdf(df, -abs(log_ratio / error))
    return RatioEffect(ratio, log_ratio, error, df, log_ratio / spread * (1 - 3 / (4 * df - 1)), p_value)


# --- multiple tests: bound the chance of even a single false alarm


def holm(p_values: Sequence[float]) -> Floats:
    """Holm's adjusted p-values, in the order given: raise an alarm where the adjusted value is at most the level.

    Valid under any dependence between the tests.
    """
    p = np.asarray(p_values, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p-values lie between 0 and 1")
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1)
    return adjusted


# --- tests of equivalence: showing that two things are the same, not merely failing to show a difference


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Result of a test that a ratio lies within 1/(1 + margin) and 1 + margin."""

    margin: float
    p_value: float
    """p-value against "the ratio lies outside"; equivalence is shown if it is at most the level."""
    within: float
    """The smallest margin that could have been shown at the level."""

    def holds(self, level: float = 0.05) -> bool:
        """True if equivalence is shown at this level."""
        return self.p_value <= level


def equivalence(effect: RatioEffect, margin: float, level: float = 0.05) -> Equivalence:
    """Two one-sided t tests (TOST) on the log ratio, with a margin chosen beforehand.

    Same assumptions as the effect's own test: independent blocks, log ratio roughly normal.
    """
    if margin <= 0:
        raise ValueError("the margin of equivalence must be above 0, e.g. 0.02 for 2 %")
    bound = math.log1p(margin)
    reach = abs(effect.log_ratio) + t_quantile(effect.df, 1 - level) * effect.standard_error
    if effect.standard_error == 0:
        p_value = 0.0 if abs(effect.log_ratio) < bound else 1.0
    else:
        p_value = t_cdf(effect.df, (abs(effect.log_ratio) - bound) / effect.standard_error)
    return Equivalence(margin, p_value, math.expm1(reach))
