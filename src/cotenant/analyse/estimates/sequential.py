"""Intervals that may be looked at after every block: the truth stays inside all of them together, at the stated level.

An ordinary interval is right with 95 % probability when it is looked at once. Whoever watches a run looks again and
again, and stops at a moment that looks good: after some hundred looks ordinary intervals have missed the truth at least
once in half of all runs. These are Robbins' normal mixture boundary with the spread estimated from the blocks
(Waudby-Smith et al., "Time-uniform central limit theory and asymptotic confidence sequences", 2021); the price is a
width of about 1.6 times the ordinary one.
"""

import math

import numpy as np

from cotenant.analyse.estimates.estimate import Estimate
from cotenant.analyse.estimates.intervals import Numbers, block_interval, student_t

FIRST_LOOK = 12
"""Blocks from which on the spread is known well enough."""
TIGHTEST_AT = 60
"""The number of blocks at which the boundary is tightest; it is within 10 % of that from a third to three times it."""


def anytime_factor(n: int, level: float = 0.95) -> float:
    """How many standard errors wide an interval has to be that may be looked at after every block."""
    alpha = 1 - level
    rho2 = (-2 * math.log(alpha) + math.log(-2 * math.log(alpha) + 1)) / TIGHTEST_AT
    return math.sqrt((n * rho2 + 1) / (n * rho2) * math.log((n * rho2 + 1) / alpha**2))


def anytime_interval(log_ratios: Numbers, level: float = 0.95) -> Estimate:
    """The geometric mean of ratios over the blocks so far, with an interval that holds however often it is looked at.

    None before `FIRST_LOOK` blocks. Where blocks are correlated the interval is widened as the ordinary one is.
    """
    data = np.asarray(log_ratios, dtype=np.float64)
    n = data.size
    found = block_interval(data, level)
    if n < FIRST_LOOK or found.lo is None or found.hi is None:
        return Estimate(math.exp(found.est), None, None, n, f"fewer than {FIRST_LOOK} blocks: no interval yet")
    wider = anytime_factor(n, level) / student_t(n - 1, level) * student_t(max(FIRST_LOOK - 1, n // 2), level) / 1.96
    lo, hi = found.est - (found.est - found.lo) * wider, found.est + (found.hi - found.est) * wider
    return Estimate(math.exp(found.est), math.exp(lo), math.exp(hi), n, "confidence sequence")
