"""How much less information a correlated request carries than an independent one.

A share (of requests above a threshold) is counted in stretches of requests. Shares of independent requests would
scatter as the binomial predicts; the ratio of the observed to the predicted variance is the design effect, and n
divided by it is the equivalent number of independent requests. Woodruff's method transfers the interval of the share
to the quantile.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cotenant.analyse.estimates.intervals import student_t

STRETCHES = 12
"""Fewest stretches to cut the trials into: with fewer, their variance is poorly known."""


@dataclass(frozen=True, slots=True)
class Stretches:
    """Requests of one trial, cut into stretches in the order in which they were due."""

    sizes: npt.NDArray[np.int64]
    hits: npt.NDArray[np.int64]


def stretch_bounds(size: int, trials: int) -> npt.NDArray[np.int64]:
    """Cut points for a trial of ``size`` requests, so that all trials together give enough stretches."""
    pieces = max(1, min(math.ceil(STRETCHES / trials), size))
    return np.linspace(0, size, pieces + 1).astype(np.int64)


def design_effect(trials: Sequence[Stretches], level: float = 0.95) -> float:
    """The larger of the effects between stretches and between trials; at least 1.

    Includes the uncertainty of the variance itself (few stretches, fewer trials), by Student's t. Assumes that trials
    are independent and that correlation within a trial either dies out within a stretch or shows between trials.
    """
    by_stretch = np.concatenate([trial.sizes for trial in trials]), np.concatenate([trial.hits for trial in trials])
    by_trial = np.array([trial.sizes.sum() for trial in trials]), np.array([trial.hits.sum() for trial in trials])
    return max(1.0, _effect(*by_stretch, level), _effect(*by_trial, level))


def _effect(sizes: npt.NDArray[np.int64], hits: npt.NDArray[np.int64], level: float) -> float:
    """Variance of the share between clusters over the binomial's, inflated for the uncertainty of the former."""
    clusters, total = sizes.size, int(sizes.sum())
    share = float(hits.sum()) / total if total else 0.0
    if clusters < 2 or not 0 < share < 1:
        return 1.0
    residuals = hits - share * sizes
    variance = clusters / (clusters - 1) * float(residuals @ residuals) / total**2
    doubt = (student_t(clusters - 1, level) / student_t(math.inf, level)) ** 2
    return variance / (share * (1 - share) / total) * doubt
