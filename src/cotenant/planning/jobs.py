"""Jobs: what they ask for, and a stated distribution to draw them from."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cotenant.analyse.estimates.intervals import Floats

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class JobClass:
    """A kind of work."""

    name: str
    core_share: float
    """Part of its time that stretches when the clock falls: 1 for a matrix product, near 0 for a copy."""
    activity: float
    """Its power above idle, over that of work at the power limit, at the same clock."""
    across: float = 1.0
    """Its time over more than one node, over that within one."""


CLASSES = (
    JobClass("gemm", core_share=0.97, activity=1.0, across=1.0),
    JobClass("resnet", core_share=0.85, activity=0.93, across=1.16),
    JobClass("bert", core_share=0.75, activity=0.85, across=1.0),
    JobClass("pagerank", core_share=0.1, activity=0.35, across=1.1),
)
"""Stated, not measured: core shares within what DVFS measurements on two GPUs show (0.05 for a vector sum to 1.02), the
cost of leaving a node as PAL publishes it for its classes."""


@dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs in columns, in the order of their arrival."""

    classes: tuple[JobClass, ...]
    kind: Numbers
    gpus: Numbers
    arrival_s: Floats
    seconds: Floats
    """On median GPUs within one node."""

    def __len__(self) -> int:
        return int(self.kind.size)


SIZES, SIZE_WEIGHTS = (1, 2, 4, 8, 16), (0.45, 0.2, 0.2, 0.1, 0.05)
MEDIAN_S, SPREAD = 3600.0, 1.0


def draw_jobs(
    count: int, fleet_size: int, *, load: float = 0.9, seed: int = 0, classes: tuple[JobClass, ...] = CLASSES
) -> Jobs:
    """Jobs as they might come: sizes by `SIZE_WEIGHTS`, lengths lognormal around an hour, Poisson arrivals.

    Args:
        count: How many.
        fleet_size: GPUs that they will run on.
        load: GPU time asked for over GPU time there is, while jobs arrive.
        seed: The same seed gives the same jobs.
        classes: Kinds of work, equally likely.
    """
    rng = np.random.default_rng(seed)
    gpus = np.minimum(rng.choice(SIZES, count, p=SIZE_WEIGHTS), fleet_size)
    seconds = MEDIAN_S * np.exp(SPREAD * rng.standard_normal(count))
    rate = load * fleet_size / float((gpus * seconds).mean())
    arrival = np.cumsum(rng.exponential(1 / rate, count))
    return Jobs(classes, rng.integers(len(classes), size=count), gpus.astype(np.int64), arrival, seconds)
