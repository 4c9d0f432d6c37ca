"""Tests of equivalence: showing that two things are the same, not merely failing to show a difference."""

import math
from dataclasses import dataclass

from cotenant.analyse.estimates.effects import RatioEffect


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
    from scipy import special

    if margin <= 0:
        raise ValueError("the margin of equivalence must be above 0, e.g. 0.02 for 2 %")
    bound = math.log1p(margin)
    reach = abs(effect.log_ratio) + float(special.stdtrit(effect.df, 1 - level)) * effect.standard_error
    if effect.standard_error == 0:
        p_value = 0.0 if abs(effect.log_ratio) < bound else 1.0
    else:
        p_value = float(special.stdtr(effect.df, (abs(effect.log_ratio) - bound) / effect.standard_error))
    return Equivalence(margin, p_value, math.expm1(reach))
