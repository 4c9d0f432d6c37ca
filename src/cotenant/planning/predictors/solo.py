"""A tenant measured alone on a real device, at one batch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cotenant.planning.solver.problem import Floats

ONE_BLOCK = 0.1
"""Drift assumed for a single block, which can't show any."""


@dataclass(frozen=True, slots=True)
class Solo:
    """A tenant at one batch, measured alone."""

    place: int
    """Index among the solos that the laws know."""
    mean_s: float
    drawn_s: Floats
    """By block, times of its requests."""
    drift: float
    """Standard error of the logarithm of the mean, for another period as long as the measured one."""
    cores: float
    """Share of the device's cores that it keeps busy."""
    bandwidth: float
    memory_bytes: float
    first_s: float | None = None
    step_s: float | None = None
    after_pause_s: Floats | None = None
    """Times of requests that came while nothing ran, if they were measured apart."""
    in_a_row: int = 1
    """Requests per block: this many in a row are about equally fast."""

    @property
    def usual_s(self) -> float:
        """The median of a request under load that leaves pauses, if that was measured."""
        return float(np.median(self.drawn_s if self.after_pause_s is None else self.after_pause_s))

    def slower(self, factor: float) -> "Solo":
        """The same with all times this much longer."""
        return replace(
            self,
            mean_s=self.mean_s * factor,
            drawn_s=self.drawn_s * factor,
            first_s=None if self.first_s is None else self.first_s * factor,
            step_s=None if self.step_s is None else self.step_s * factor,
            after_pause_s=None if self.after_pause_s is None else self.after_pause_s * factor,
        )

    def draw(self, count: int, random: np.random.Generator) -> Floats:
        """Times of requests that follow each other: a slow block stays slow for as long as it was measured."""
        blocks = random.integers(len(self.drawn_s), size=-(-count // self.in_a_row)).repeat(self.in_a_row)[:count]
        return np.asarray(self.drawn_s[blocks, random.integers(self.drawn_s.shape[1], size=count)])


def drift(means_s: Sequence[float], inflation: float) -> float:
    """How far the mean of the next period may be off: both means are of blocks that resemble their neighbours.

    Args:
        means_s: By block.
        inflation: Variance of a mean over that of as many independent blocks.
    """
    count = len(means_s)
    if count == 1:
        return ONE_BLOCK
    # At most that of a single block to come.
    parts = min(2 * inflation / count, 1 + 1 / count)
    return float(np.std(np.log(means_s), ddof=1)) * float(np.sqrt(parts))
