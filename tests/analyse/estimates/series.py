"""Series with a known correlation, and what its requests are worth by a textbook formula."""

import numpy as np
from scipy import stats


def ar(n, rho, seed=0):
    noise = np.random.default_rng(seed).normal(size=n)
    series = [float(noise[0])]
    for value in noise[1:]:
        series.append(rho * series[-1] + float(value))
    return np.array(series)


def cluster_effect(sizes, hits):
    """Kish's design effect of a ratio over clusters, with doubt about the variance."""
    k, total, share = len(sizes), sum(sizes), sum(hits) / sum(sizes)
    variance = k / (k - 1) * sum((h - share * s) ** 2 for s, h in zip(sizes, hits, strict=True)) / total**2
    return variance / (share * (1 - share) / total) * (stats.t.ppf(0.975, k - 1) / stats.norm.ppf(0.975)) ** 2
