"""What sharing did to a mix as a whole, from each tenant's normalised progress in one block.

Normalised progress is time alone / time shared: 1 means the neighbours cost nothing, 0.5 means half the speed. All
functions take one block's progress of every tenant of the mix; values of several blocks are then averaged with
`over_blocks`, never the other way round.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from cotenant.analyse.estimates.estimate import Estimate
from cotenant.analyse.estimates.intervals import Floats, Numbers, positive_interval


def normalised_progress(solo_time: Numbers, shared_time: Numbers) -> Floats:
    """Time alone over time shared, tenant by tenant. Assumes both were measured in the same block."""
    return np.asarray(solo_time, dtype=np.float64) / np.asarray(shared_time, dtype=np.float64)


def slowdown(solo_time: Numbers, shared_time: Numbers) -> Floats:
    """Time shared over time alone, tenant by tenant. Assumes both were measured in the same block."""
    return 1 / normalised_progress(solo_time, shared_time)


def stp(progress: Numbers) -> float:
    """System throughput: the sum of progress. 1 is what taking turns gives; the number of tenants is the most."""
    return float(np.sum(progress))


def antt(progress: Numbers) -> float:
    """Average normalised turnaround time: the mean slowdown. 1 is best."""
    return float(np.mean(1 / np.asarray(progress, dtype=np.float64)))


def harmonic_speedup(progress: Numbers) -> float:
    """Tenants over the sum of their slowdowns: low if any one of them suffers much."""
    return 1 / antt(progress)


def fairness(progress: Numbers) -> float:
    """The least progress over the greatest: 1 if all suffer alike. Noise can only lower it, never raise it past 1."""
    data = np.asarray(progress, dtype=np.float64)
    return float(data.min() / data.max())


def jain(progress: Numbers) -> float:
    """Jain's index of progress: 1 if all suffer alike, 1/n if one tenant has it all."""
    data = np.asarray(progress, dtype=np.float64)
    return float(data.sum() ** 2 / (data.size * (data**2).sum()))


METRICS: Mapping[str, tuple[Callable[[Numbers], float], float | None]] = {
    "stp": (stp, None),
    "antt": (antt, None),
    "harmonic_speedup": (harmonic_speedup, None),
    "fairness": (fairness, 1.0),
    "jain": (jain, 1.0),
}
"""Every metric of a mix, with the value that it can't exceed."""


def over_blocks(metric: str, progress_by_block: Sequence[Numbers]) -> Estimate:
    """A metric of each block, then its mean over blocks with an interval, cut at the metric's bound.

    Assumes blocks are independent; tenants within a block need not be.
    """
    value_of, most = METRICS[metric]
    estimate = positive_interval([value_of(progress) for progress in progress_by_block])
    if most is None or estimate.lo is None or estimate.hi is None:
        return estimate
    return Estimate(estimate.est, max(estimate.lo, 0.0), min(estimate.hi, most), estimate.n, estimate.method)
