"""Metrics of a mix, from each tenant's normalised progress in one block.

Normalised progress is time alone / time shared: 1 means the neighbours cost nothing, 0.5 means half the speed. All
functions take the progress of every tenant of the mix; `over_blocks` applies them to all blocks.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from cotenant.analyse.estimates.estimate import Estimate
from cotenant.analyse.estimates.intervals import BOOTSTRAP_FROM, Floats, Numbers, positive_interval, ratio_interval
from cotenant.analyse.estimates.robust import huber

_STEP = 1e-4
"""Step of a logarithm for numerical slopes."""


def normalised_progress(solo_time: Numbers, shared_time: Numbers) -> Floats:
    """Time alone over time shared, tenant by tenant. Assumes both were measured in the same block."""
    return np.asarray(solo_time, dtype=np.float64) / np.asarray(shared_time, dtype=np.float64)


def slowdown(solo_time: Numbers, shared_time: Numbers) -> Floats:
    """Time shared over time alone, tenant by tenant. Assumes both were measured in the same block."""
    return 1 / normalised_progress(solo_time, shared_time)


def stp(progress: Numbers) -> float:
    """System throughput: the sum of progress. Taking turns gives 1; the maximum is the number of tenants."""
    return float(np.sum(progress))


def antt(progress: Numbers) -> float:
    """Average normalised turnaround time: the mean slowdown. 1 is best."""
    return float(np.mean(1 / np.asarray(progress, dtype=np.float64)))


def harmonic_speedup(progress: Numbers) -> float:
    """Tenants over the sum of their slowdowns: low if any one of them suffers badly."""
    return 1 / antt(progress)


def fairness(progress: Numbers) -> float:
    """The least progress over the greatest: 1 if all suffer alike. Noise can only lower it, never raise it past 1."""
    data = np.asarray(progress, dtype=np.float64)
    return float(data.min() / data.max())


def jain(progress: Numbers) -> float:
    """Jain's index of progress: 1 if all suffer alike, 1/n if one tenant gets everything."""
    data = np.asarray(progress, dtype=np.float64)
    return float(data.sum() ** 2 / (data.size * (data**2).sum()))


METRICS: Mapping[str, tuple[Callable[[Numbers], float], float | None]] = {
    "stp": (stp, None),
    "antt": (antt, None),
    "harmonic_speedup": (harmonic_speedup, None),
    "fairness": (fairness, 1.0),
    "jain": (jain, 1.0),
}
"""Every metric of a mix, with its upper bound."""


def over_blocks(metric: str, progress_by_block: Sequence[Numbers]) -> Estimate:
    """A metric over all blocks with an interval, clipped at the metric's bound.

    From few blocks: the mean of its values in each block. From many short ones: its value at the tenants' mean
    progress, since in a block of a few requests noise alone makes tenants unequal. Assumes identically distributed
    blocks; tenants within a block need not be independent.
    """
    value_of, most = METRICS[metric]
    if len(progress_by_block) < BOOTSTRAP_FROM:
        estimate = positive_interval([value_of(progress) for progress in progress_by_block])
    else:
        estimate = ratio_interval(_at_the_mean(value_of, np.log(np.asarray(progress_by_block, dtype=np.float64))))
    if most is None or estimate.lo is None or estimate.hi is None:
        return estimate
    return Estimate(estimate.est, max(estimate.lo, 0.0), min(estimate.hi, most), estimate.n, estimate.method)


def _at_the_mean(value_of: Callable[[Numbers], float], logs: Floats) -> Floats:
    """The logarithm of a metric at the mean of the blocks' logarithms (blocks x tenants), with each block's influence.

    The mean of the result is the metric's value and its spread the metric's error (delta method).
    """
    robust = [huber(column) for column in logs.T]
    mean = np.array([one.location for one in robust])
    parts = np.stack([one.influence for one in robust], axis=1) - mean
    steps = np.eye(mean.size) * _STEP
    slope = [
        (math.log(value_of(np.exp(mean + step))) - math.log(value_of(np.exp(mean - step)))) / (2 * _STEP)
        for step in steps
    ]
    return np.asarray(math.log(value_of(np.exp(mean))) + parts @ np.array(slope))
