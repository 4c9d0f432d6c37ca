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

from cotenant.analyse.intervals import student_t

STRETCHES = 12
"""Least number of stretches that the trials are cut into: fewer know too little about their own scatter."""
TRIALS_DIFFER_AT = 0.8
"""Confidence at which trials are held to differ by more than their stretches do; then whole trials are the unit."""


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
    """At least 1; the doubt about the scatter itself (few stretches or trials) is part of it, by Student's t.

    Assumes requests of different stretches are independent given the trial, and trials are independent. If trials
    differ by more than their stretches do, only the number of trials counts.
    """
    sizes = np.concatenate([trial.sizes for trial in trials])
    hits = np.concatenate([trial.hits for trial in trials])
    by_stretch = _scatter(sizes, hits)
    if by_stretch is None:
        return 1.0
    scatter, df = by_stretch
    by_trial = _scatter(np.array([t.sizes.sum() for t in trials]), np.array([t.hits.sum() for t in trials]))
    if by_trial is not None and by_trial[0] > scatter * _f_quantile(by_trial[1], max(1, df - by_trial[1])):
        scatter, df = by_trial
    return max(1.0, scatter * (student_t(df, level) / student_t(math.inf, level)) ** 2)


def _scatter(sizes: npt.NDArray[np.int64], hits: npt.NDArray[np.int64]) -> tuple[float, int] | None:
    """Variance of the share seen between clusters over the binomial's, and its degrees of freedom."""
    clusters, total = sizes.size, int(sizes.sum())
    share = float(hits.sum()) / total if total else 0.0
    if clusters < 2 or not 0 < share < 1:
        return None
    residuals = hits - share * sizes
    variance = clusters / (clusters - 1) * float(residuals @ residuals) / total**2
    return variance / (share * (1 - share) / total), clusters - 1


def _f_quantile(df_of_trials: int, df_of_stretches: int) -> float:
    from scipy import special

    return float(special.fdtri(df_of_trials, df_of_stretches, TRIALS_DIFFER_AT))
