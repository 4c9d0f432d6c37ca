"""Intervals valid at every look: all of them together contain the truth at the stated level.

An ordinary interval holds with 95 % probability when looked at once. Watching a run means looking repeatedly and
stopping when the result looks good: after some hundred looks, ordinary intervals have missed the truth at least once
in half of all runs. These use Robbins' normal mixture boundary with the spread estimated from the blocks
(Waudby-Smith et al., "Time-uniform central limit theory and asymptotic confidence sequences", 2021); they are about
1.6 times as wide as ordinary ones.
"""

import math

import numpy as np

from cotenant.analyse.estimates.autocorrelation import Common
from cotenant.analyse.estimates.estimate import Estimate
from cotenant.analyse.estimates.intervals import Numbers, block_interval, student_t

FIRST_LOOK = 12
"""Fewest blocks for a usable estimate of the spread."""
TIGHTEST_AT = 60
"""Number of blocks at which the boundary is tightest; from a third to three times that it is within 10 %."""


def anytime_factor(n: int, level: float = 0.95) -> float:
    """Width, in standard errors, of an interval that is valid at every block."""
    alpha = 1 - level
    rho2 = (-2 * math.log(alpha) + math.log(-2 * math.log(alpha) + 1)) / TIGHTEST_AT
    return math.sqrt((n * rho2 + 1) / (n * rho2) * math.log((n * rho2 + 1) / alpha**2))


def anytime_interval(log_ratios: Numbers, level: float = 0.95, common: Common | None = None) -> Estimate:
    """Geometric mean of ratios over the blocks so far, with an interval that holds however often it is looked at.

    None before `FIRST_LOOK` blocks. For correlated blocks the interval is widened like the ordinary one;
    ``common``: as for `block_interval`.
    """
    data = np.asarray(log_ratios, dtype=np.float64)
    n = data.size
    found = block_interval(data, level, common)
    if n < FIRST_LOOK or found.lo is None or found.hi is None:
        return Estimate(math.exp(found.est), None, None, n, f"fewer than {FIRST_LOOK} blocks: no interval yet")
    wider = anytime_factor(n, level) / student_t(n - 1, level) * student_t(max(FIRST_LOOK - 1, n // 2), level) / 1.96
    lo, hi = found.est - (found.est - found.lo) * wider, found.est + (found.hi - found.est) * wider
    return Estimate(math.exp(found.est), math.exp(lo), math.exp(hi), n, "confidence sequence")
