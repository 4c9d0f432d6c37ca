"""PAL's view of a fleet (SC'24): GPUs in clusters of similar speed, their number chosen by silhouette.

The published code returns from its loop over the number of clusters in the first iteration, so it always makes two.
Here all numbers are tried and the best silhouette wins.
"""

import numpy as np
import numpy.typing as npt

from cotenant.analyse.estimates.intervals import Floats

FEWEST, MOST = 2, 10
OUTLIER_SIGMAS = 3.0
_ROUNDS = 50
_SAMPLE = 1000
"""Sample size for large fleets, since a silhouette needs all pairs."""


def cluster_factors(times: Floats) -> Floats:
    """Each GPU's cluster centre over the median centre; outliers are clusters of their own."""
    outlier = times > times.mean() + OUTLIER_SIGMAS * times.std()
    inside = times[~outlier]
    centres = _best(inside)
    labels = np.abs(inside[:, None] - centres[None, :]).argmin(axis=1)
    factors = times.copy()
    factors[~outlier] = centres[labels]
    return np.asarray(factors / np.median(np.concatenate((centres, times[outlier]))))


def _best(values: Floats) -> Floats:
    distinct = np.unique(values)
    if distinct.size <= FEWEST:
        return distinct
    tried = [_means(values, count) for count in range(FEWEST, min(MOST, distinct.size - 1) + 1)]
    return max(tried, key=lambda centres: silhouette(values, centres))


def _means(values: Floats, count: int) -> Floats:
    """One-dimensional k-means starting from even quantiles; deterministic."""
    centres = np.unique(np.quantile(values, (np.arange(count) + 0.5) / count))
    for _ in range(_ROUNDS):
        labels = np.abs(values[:, None] - centres[None, :]).argmin(axis=1)
        counts = np.bincount(labels, minlength=centres.size)
        moved = np.bincount(labels, values, centres.size)[counts > 0] / counts[counts > 0]
        if moved.size == centres.size and np.allclose(moved, centres):
            break
        centres = moved
    return np.asarray(centres)


def silhouette(values: Floats, centres: Floats) -> float:
    """Mean silhouette of one-dimensional values, each with its nearest centre."""
    values = np.sort(values)[:: max(1, values.size // _SAMPLE)]
    labels = np.abs(values[:, None] - centres[None, :]).argmin(axis=1)
    apart = np.abs(values[:, None] - values[None, :])
    member: npt.NDArray[np.bool_] = labels[:, None] == np.unique(labels)[None, :]
    counts = member.sum(axis=0)
    to_cluster = apart @ member / np.maximum(counts, 1)
    own = member.argmax(axis=1)
    row = np.arange(values.size)
    inside = to_cluster[row, own] * counts[own] / np.maximum(counts[own] - 1, 1)
    to_cluster[row, own] = np.inf
    outside = to_cluster.min(axis=1)
    alone = counts[own] == 1
    widest = np.maximum(inside, outside)
    undefined = alone | (widest == 0) | ~np.isfinite(widest)
    score = np.where(undefined, 0.0, (outside - inside) / np.where(undefined, 1.0, widest))
    return float(score.mean())
