"""Intervals over GPUs: the GPU is the unit of replication, since two runs of one GPU are almost the same number."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from cotenant.analyse.estimates.estimate import Estimate
from cotenant.analyse.estimates.intervals import SEED, Floats
from cotenant.analyse.estimates.missing import Missing, Number

FEWEST_GPUS = 5
"""Fewest GPUs: fewer have too few distinct resamples for a meaningful interval."""
_WORK = 4_000_000
METHOD = "bootstrap over GPUs"

Ints = npt.NDArray[np.int64]


def resamples_for(gpus: int) -> int:
    """Number of resamples: as many as fit in a second, at least 200."""
    return int(np.clip(_WORK // max(1, gpus), 200, 1000))


def draws_of(gpus: int) -> Ints:
    """Positions of the drawn GPUs, a row for each resample; deterministic for a given number of GPUs."""
    return np.random.default_rng(SEED).integers(gpus, size=(resamples_for(gpus), gpus))


def counted(draws: Ints) -> Ints:
    """How often each GPU was drawn in each resample."""
    gpus = draws.shape[1]
    shifted = draws + gpus * np.arange(len(draws))[:, None]
    return np.bincount(shifted.ravel(), minlength=draws.size).reshape(draws.shape)


def estimated(estimate: float, resampled: Callable[[], Floats], gpus: int, level: float = 0.95) -> Number:
    """The estimate with the percentiles of its resamples; without an interval for few GPUs."""
    if not np.isfinite(estimate):
        return Missing("it was not recorded, or did not vary", gpus)
    if gpus < FEWEST_GPUS:
        return Estimate(estimate, None, None, gpus, f"{gpus} GPUs: no interval")
    values = resampled()
    values = values[np.isfinite(values)]
    if values.size < 100:
        return Estimate(estimate, None, None, gpus, "too few resamples have a value")
    lo, hi = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(estimate, float(lo), float(hi), gpus, METHOD)
