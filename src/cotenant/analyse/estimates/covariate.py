"""Remove noise that a sensor sees: correct each block's ratio by the speed of the core in it.

A canary (a plain loop timed beside requests) shows how fast the core was in the shared window and in the solo window.
Where the difference is chance it averages to zero, so the part that it explains can be subtracted without moving the
mean (a control variate). Where the canary itself differs between the two, the neighbours slow it down: then it is part
of the effect and nothing is subtracted.
"""

import math
from collections.abc import Mapping

import numpy as np

FEWEST_BLOCKS = 12
LEAST_KNOWN = 0.8
"""Smallest share of blocks with a canary. The others keep their ratio: on average there is nothing to correct."""
LEAST_CORRELATION = 0.3
"""With a weaker correlation the correction costs more than it gains."""
LARGEST_DIFFERENCE = 0.02
"""Largest mean difference of the canary between cells, however few blocks there are."""
MOST_ERRORS = 1.64
"""Largest mean difference in standard errors."""
STEEPEST = 1.5
"""Upper bound of the slope: a tenant's time can't depend on the core's speed much more than in proportion."""


def adjusted(log_ratios: Mapping[int, float], canaries: Mapping[int, float]) -> dict[int, float]:
    """Log ratios by block, less the part explained by the canary's; unchanged where the canary can't be used."""
    given = dict(log_ratios)
    blocks = [block for block in given if block in canaries]
    if len(blocks) < max(FEWEST_BLOCKS, LEAST_KNOWN * len(given)):
        return given
    x = np.array([canaries[block] for block in blocks])
    y = np.array([given[block] for block in blocks])
    spread = float(x.std(ddof=1))
    if spread == 0 or not usable(x):
        return given
    correlation = float(np.corrcoef(x, y)[0, 1]) if y.std() > 0 else 0.0
    if correlation < LEAST_CORRELATION:
        return given
    slope = min(correlation * float(y.std(ddof=1)) / spread, STEEPEST)
    return {block: value - slope * canaries.get(block, 0.0) for block, value in given.items()}


def usable(canaries: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> bool:
    """True if the canary does not differ between the cells."""
    mean, error = float(canaries.mean()), float(canaries.std(ddof=1)) / math.sqrt(canaries.size)
    return abs(mean) <= LARGEST_DIFFERENCE and abs(mean) <= MOST_ERRORS * error
