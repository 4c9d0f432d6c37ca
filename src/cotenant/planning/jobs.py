"""Jobs: their requirements, and a synthetic distribution to draw them from."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cotenant.analyse.estimates.intervals import Floats

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class JobClass:
    """A class of work."""

    name: str
    core_share: float
    """Fraction of its time that scales with the clock: 1 for a matrix product, near 0 for a copy."""
    activity: float
    """Power above idle relative to work at the power limit, at the same clock."""
    across: float = 1.0
    """Time across several nodes relative to a single node."""


CLASSES = (
    JobClass("gemm", core_share=0.97, activity=1.0, across=1.0),
    JobClass("resnet", core_share=0.85, activity=0.93, across=1.16),
    JobClass("bert", core_share=0.75, activity=0.85, across=1.0),
    JobClass("pagerank", core_share=0.1, activity=0.35, across=1.1),
)
"""Assumed, not measured: core shares within the range of DVFS measurements on two GPUs (0.05 for a vector sum to 1.02),
and the cost of leaving a node as published by PAL for its classes."""


@dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs as columns, in order of arrival."""

    classes: tuple[JobClass, ...]
    kind: Numbers
    gpus: Numbers
    arrival_s: Floats
    seconds: Floats
    """Duration on median GPUs within a node."""

    def __len__(self) -> int:
        return int(self.kind.size)


SIZES, SIZE_WEIGHTS = (1, 2, 4, 8, 16), (0.45, 0.2, 0.2, 0.1, 0.05)
MEDIAN_S, SPREAD = 3600.0, 1.0


def draw_jobs(
    count: int, fleet_size: int, *, load: float = 0.9, seed: int = 0, classes: tuple[JobClass, ...] = CLASSES
) -> Jobs:
    """Draw synthetic jobs: sizes by `SIZE_WEIGHTS`, lognormal lengths around an hour, Poisson arrivals.

    Args:
        count: Number of jobs.
        fleet_size: Number of GPUs they run on.
        load: GPU time requested over GPU time available, while jobs arrive.
        seed: The same seed gives the same jobs.
        classes: Classes of work, equally likely.
    """
    rng = np.random.default_rng(seed)
    gpus = np.minimum(rng.choice(SIZES, count, p=SIZE_WEIGHTS), fleet_size)
    seconds = MEDIAN_S * np.exp(SPREAD * rng.standard_normal(count))
    rate = load * fleet_size / float((gpus * seconds).mean())
    arrival = np.cumsum(rng.exponential(1 / rate, count))
    return Jobs(classes, rng.integers(len(classes), size=count), gpus.astype(np.int64), arrival, seconds)
