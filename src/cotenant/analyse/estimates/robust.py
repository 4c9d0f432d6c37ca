"""A mean resistant to a few disturbed blocks: Huber's M-estimate of location and scale together (proposal 2).

Blocks further than `BOUND` standard deviations from the mean count as if they were that far. For normal blocks this
costs 1 % of the efficiency of the mean (a variance 1.010 times as large); with one block in ten disturbed it is far
better than the mean. The scale is that of all values, not of the middle half: where blocks have two levels, as when
tenants sometimes land on the same core, both are results and neither is an outlier.
"""

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
    """1 for a value with full weight; BOUND / distance for one further away."""
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
        bounded = np.clip(distance, -BOUND, BOUND)
        inside = float((np.abs(distance) < BOUND).mean()) or 1.0
        step = scale * float(bounded.mean()) / inside
        shrink = float(np.sqrt((bounded**2).sum() / ((n - 1) * _EXPECTED)))
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
