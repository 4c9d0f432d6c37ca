"""A mean resistant to a few disturbed blocks: Huber's M-estimate of location and scale together (proposal 2).

Blocks further than `BOUND` standard deviations from the mean count as if they were that far. For normal blocks this
costs 1 % of the efficiency of the mean (a variance 1.010 times as large); with one block in ten disturbed it is far
better than the mean. The scale is that of all values, not of the middle half: where blocks have two levels, as when
tenants sometimes land on the same core, both are results and neither is an outlier.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

BOUND = 2.0
"""In standard deviations."""
_EXPECTED = 0.920_537
"""Mean of min(z^2, BOUND^2) for a standard normal z: makes the scale consistent for a normal sample."""
_ROUNDS = 60
_CLOSE = 1e-9


@dataclass(frozen=True, slots=True)
class Robust:
    """Location of a sample, and the weight of each value."""

    location: float
    scale: float
    weights: Floats
    """1 for a value with full weight; BOUND / distance for a value further away."""
    influence: Floats
    """Pseudo-values: their mean is the location, and their standard error its error."""

    @property
    def reduced(self) -> int:
        """Number of values with less than full weight."""
        return int((self.weights < 1).sum())


def huber(values: Floats) -> Robust:
    """Location and scale of a sample of at least two values."""
    data = np.asarray(values, dtype=np.float64)
    n = data.size
    if n < 2:
        raise ValueError("a robust mean needs at least two values")
    location, scale = float(np.median(data)), float(data.std(ddof=1))
    for _ in range(_ROUNDS):
        if scale <= 0:
            break
        distance = (data - location) / scale
        bounded = np.minimum(np.maximum(distance, -BOUND), BOUND)
        inside = np.count_nonzero(np.abs(distance) < BOUND) / n or 1.0
        step = scale * float(bounded.sum()) / n / inside
        shrink = math.sqrt(float(bounded @ bounded) / ((n - 1) * _EXPECTED))
        location, scale = location + step, scale * shrink
        if abs(step) <= _CLOSE * scale and abs(shrink - 1) <= _CLOSE:
            break
    if scale <= 0:
        return Robust(location, 0.0, np.ones(n), np.full(n, location))
    distance = (data - location) / scale
    bounded = np.clip(distance, -BOUND, BOUND)
    inside = float((np.abs(distance) < BOUND).mean()) or 1.0
    weights = np.where(np.abs(distance) <= BOUND, 1.0, BOUND / np.maximum(np.abs(distance), BOUND))
    return Robust(location, scale, weights, location + scale * bounded / inside)


# --- remove noise that a sensor sees: correct each block's ratio by the speed of the core in it

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
