"""Correlates of being slow: rank correlations of the GPUs' times with their clocks, temperatures and powers.

Ranks, since a few broken GPUs would dominate Pearson's coefficient; medians of GPUs, since runs of one GPU are not
independent.
"""

from typing import Any

import numpy as np

from cotenant.analyse.estimates.intervals import Floats
from cotenant.analyse.estimates.missing import Number
from cotenant.analyse.variability.readings import SENSORS, Readings
from cotenant.analyse.variability.resampling import Ints, counted, draws_of, estimated


def rank_correlations(readings: Readings) -> dict[str, Number]:
    """Spearman's coefficient of time with each sensor, over GPUs that have both; Missing where one never varied."""
    return {name: _of(readings.gpu_times, readings.medians(getattr(readings, name))) for name in SENSORS}


def rank_correlation(a: Floats, b: Floats, counts: Ints | None = None) -> Any:
    """Spearman's coefficient; NaN where one side is constant.

    Args:
        a: One value per item.
        b: The other.
        counts: How often each item was drawn, a row for each resample; None: once. Ranks in a resample follow from
            counts by adding up, without sorting each resample.
    """
    drawn = np.ones((1, a.size), dtype=np.int64) if counts is None else counts
    first, second = (_ranks(side, drawn) - (drawn.sum(axis=1, keepdims=True) + 1) / 2 for side in (a, b))
    scale = np.sqrt((drawn * first**2).sum(axis=1) * (drawn * second**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        found = (drawn * first * second).sum(axis=1) / scale
    return float(found[0]) if counts is None else found


def _ranks(values: Floats, counts: Ints) -> Floats:
    """The rank of each item in each resample; equal values have their mean rank."""
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.concatenate(([True], np.diff(values[order]) != 0)))
    together = np.add.reduceat(counts[:, order], starts, axis=1)
    middle = together.cumsum(axis=1) - (together - 1) / 2
    group = np.empty(values.size, dtype=np.int64)
    group[order] = np.repeat(np.arange(starts.size), np.diff(np.append(starts, values.size)))
    ranks: Floats = middle[:, group]
    return ranks


def _of(times: Floats, sensor: Floats) -> Number:
    both = np.isfinite(times) & np.isfinite(sensor)
    a, b = times[both], sensor[both]
    if a.size < 3:
        return estimated(np.nan, lambda: a, int(a.size))
    return estimated(
        rank_correlation(a, b), lambda: np.asarray(rank_correlation(a, b, counted(draws_of(a.size)))), int(a.size)
    )
