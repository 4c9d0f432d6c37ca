"""Correlates of being slow: rank correlations of the GPUs' times with their clocks, temperatures and powers.

Ranks, since a few broken GPUs would dominate Pearson's coefficient; medians of GPUs, since runs of one GPU are not
independent.
"""

from typing import Any

import numpy as np

from cotenant.analyse.estimates.intervals import Floats
from cotenant.analyse.estimates.missing import Number
from cotenant.analyse.variability.readings import SENSORS, Readings
from cotenant.analyse.variability.resampling import draws_of, estimated


def rank_correlations(readings: Readings) -> dict[str, Number]:
    """Spearman's coefficient of time with each sensor, over GPUs that have both; Missing where one never varied."""
    return {name: _of(readings.gpu_times, readings.medians(getattr(readings, name))) for name in SENSORS}


def rank_correlation(a: Floats, b: Floats) -> Any:
    """Spearman's coefficient along the last axis; NaN where one side is constant."""
    from scipy.stats import rankdata

    first, second = (rankdata(side, axis=-1) for side in (a, b))
    first, second = (side - side.mean(axis=-1, keepdims=True) for side in (first, second))
    scale = np.sqrt((first**2).sum(axis=-1) * (second**2).sum(axis=-1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return (first * second).sum(axis=-1) / scale


def _of(times: Floats, sensor: Floats) -> Number:
    both = np.isfinite(times) & np.isfinite(sensor)
    a, b = times[both], sensor[both]
    if a.size < 3:
        return estimated(np.nan, lambda: a, int(a.size))

    def resampled() -> Floats:
        draws = draws_of(a.size)
        return np.asarray(rank_correlation(a[draws], b[draws]))

    return estimated(float(rank_correlation(a, b)), resampled, int(a.size))
