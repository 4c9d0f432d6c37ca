"""How much less a correlated request tells than an independent one.

A share (of requests above a threshold) is counted in stretches of requests. If requests were independent, the
stretches' shares would scatter as the binomial says; the ratio of the scatter seen to that is the design effect, and
n divided by it is the number of independent requests that would tell as much. Woodruff's method carries the interval
of the share over to the quantile.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cotenant.analyse.estimates.intervals import student_t

STRETCHES = 12
"""Least number of stretches that the trials are cut into: fewer know too little about their own scatter."""


@dataclass(frozen=True, slots=True)
class Stretches:
    """Requests of one trial, cut into stretches in the order in which they were due."""

    sizes: npt.NDArray[np.int64]
    hits: npt.NDArray[np.int64]


def stretch_bounds(size: int, trials: int) -> npt.NDArray[np.int64]:
    """Where to cut a trial of ``size`` requests so that all trials together give enough stretches."""
    pieces = max(1, min(math.ceil(STRETCHES / trials), size))
    return np.linspace(0, size, pieces + 1).astype(np.int64)


def design_effect(trials: Sequence[Stretches], level: float = 0.95) -> float:
    """The larger of the effects seen between stretches and between whole trials; at least 1.

    The doubt about the scatter itself (few stretches, fewer trials) is part of it, by Student's t. Assumes trials are
    independent, and that correlation within a trial either dies out within a stretch or shows between trials.
    """
    by_stretch = np.concatenate([trial.sizes for trial in trials]), np.concatenate([trial.hits for trial in trials])
    by_trial = np.array([trial.sizes.sum() for trial in trials]), np.array([trial.hits.sum() for trial in trials])
    return max(1.0, _effect(*by_stretch, level), _effect(*by_trial, level))


def _effect(sizes: npt.NDArray[np.int64], hits: npt.NDArray[np.int64], level: float) -> float:
    """Variance of the share seen between clusters over the binomial's, times the price of not knowing it well."""
    clusters, total = sizes.size, int(sizes.sum())
    share = float(hits.sum()) / total if total else 0.0
    if clusters < 2 or not 0 < share < 1:
        return 1.0
    residuals = hits - share * sizes
    variance = clusters / (clusters - 1) * float(residuals @ residuals) / total**2
    doubt = (student_t(clusters - 1, level) / student_t(math.inf, level)) ** 2
    return variance / (share * (1 - share) / total) * doubt
