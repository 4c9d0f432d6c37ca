"""Do these GPUs differ at all: k-sample Anderson-Darling, pairwise Kolmogorov-Smirnov, robust effect sizes."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from cotenant.analyse.estimates.intervals import SEED, Floats
from cotenant.analyse.variability.readings import Readings

FEWEST_RUNS = 3
MOST_VALUES = 20_000
MOST_GPUS = 400
"""Most GPUs to pair up, spread evenly from fast to slow."""
MOST_PLACES = 1000
"""Number of points at which distributions are compared."""
FEW_RUNS = 14
"""Up to this many runs of the GPU with fewer, pairs are tested exactly: the asymptotic law is far off there."""
FEW_VALUES = 40
"""Up to this many runs of all GPUs, the k-sample test uses permutations: its table is far off there."""
_PERMUTATIONS = 999
TRIM = 0.2
LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Alikeness:
    """Whether the GPUs' times could be draws from one distribution."""

    anderson_darling: float | None
    """Normalised statistic of the k-sample test; None: too few runs."""
    p_value: float | None
    """With more than 40 runs between 0.001 and 0.25: the limits of the test's table."""
    gpus: int
    """GPUs with enough runs to be tested."""
    pairs: int
    differing: int
    """Pairs that differ, with a false discovery rate of at most 5 % (Benjamini-Hochberg)."""
    median_effect: float | None
    """Median over the differing pairs of the robust effect size: 0.2 is small, 0.8 large."""


def alikeness(readings: Readings) -> Alikeness:
    """Test GPUs with at least three runs each. Assumes runs of a GPU are independent, which drift would break."""
    from scipy.stats import false_discovery_control

    rows = readings.thinned(MOST_VALUES)
    samples = [values for values in rows.of_gpu(rows.time_ms) if values.size >= FEWEST_RUNS]
    if len(samples) < 2:
        return Alikeness(None, None, len(samples), 0, 0, None)
    samples = sorted(samples, key=lambda values: float(np.median(values)))
    if len(samples) > MOST_GPUS:
        samples = [samples[place] for place in np.linspace(0, len(samples) - 1, MOST_GPUS).astype(int)]
    statistic, p_value = anderson_darling(samples)
    a, b, p = kolmogorov_smirnov_pairs(samples)
    differ = np.flatnonzero(false_discovery_control(p) <= LEVEL)
    shown = differ[:: max(1, differ.size // 2000)]
    effects = [abs(robust_effect(samples[a[pair]], samples[b[pair]])) for pair in shown]
    finite = [effect for effect in effects if np.isfinite(effect)]
    return Alikeness(
        statistic, p_value, len(samples), p.size, differ.size, float(np.median(finite)) if finite else None
    )


def anderson_darling(samples: Sequence[Floats]) -> tuple[float | None, float | None]:
    """The normalised k-sample statistic and its p-value; None where all values are equal."""
    from scipy.stats import PermutationMethod, anderson_ksamp

    if np.ptp(np.concatenate(samples)) == 0:
        return None, None
    few = sum(values.size for values in samples) <= FEW_VALUES
    permuted = PermutationMethod(n_resamples=_PERMUTATIONS, rng=np.random.default_rng(SEED)) if few else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that p lies at an end of its table, which is expected
        found: Any = anderson_ksamp([np.asarray(values) for values in samples], method=permuted)
    return float(found.statistic), float(found.pvalue)


def kolmogorov_smirnov_pairs(samples: Sequence[Floats]) -> tuple[Any, Any, Floats]:
    """Positions of both sides and the p-value of every pair: exact for few runs, else asymptotic (Stephens)."""
    from scipy.special import kolmogorov

    grid = np.unique(np.concatenate(samples))
    if grid.size > MOST_PLACES:  # distances come out slightly small, so the tests are slightly conservative
        grid = grid[np.linspace(0, grid.size - 1, MOST_PLACES).astype(np.int64)]
    sizes = np.array([values.size for values in samples])
    # Counts, not shares: distances are then integers over the product of both sizes.
    below = np.stack([np.searchsorted(np.sort(values), grid, side="right") for values in samples]).astype(np.int32)
    first, second = np.triu_indices(len(samples), 1)
    distances = np.concatenate(
        [
            np.abs(below[i + 1 :] * sizes[i] - below[i] * sizes[i + 1 :, None]).max(axis=1)
            for i in range(len(samples) - 1)
        ]
    )
    fewer, more = np.minimum(sizes[first], sizes[second]), np.maximum(sizes[first], sizes[second])
    effective = np.sqrt(fewer * more / (fewer + more))
    p = np.asarray(kolmogorov((effective + 0.12 + 0.11 / effective) * distances / (fewer * more)), dtype=np.float64)
    few = np.flatnonzero(fewer <= FEW_RUNS)
    if few.size:
        kinds, which = np.unique(np.stack([fewer, more, distances], axis=1)[few], axis=0, return_inverse=True)
        p[few] = np.array([_chance_of_distance(*map(int, kind)) for kind in kinds])[which.ravel()]
    return first, second, np.clip(p, 0, 1)


@cache
def _chance_of_distance(n: int, m: int, distance: int) -> float:
    """Probability that two samples of one continuous distribution differ by at least ``distance`` / (n m).

    Counts paths.
    """
    if distance == n * m:
        return 2 / math.comb(n + m, n)
    place = np.arange(m + 1)
    ways = np.cumprod(place * n < distance).astype(np.float64)
    for step in range(1, n + 1):
        near = np.abs(step * m - place * n) < distance
        ways = np.where(near, np.cumsum(np.where(near, ways, 0.0)), 0.0)
    return max(0.0, 1 - float(ways[m]) / math.comb(n + m, n))


def robust_effect(a: Floats, b: Floats) -> float:
    """Difference of trimmed means over the pooled winsorised deviation, scaled to Cohen's d of normal values.

    0.642 is the winsorised deviation of a standard normal distribution at 20 % from either end.
    """
    means, squares, freedom = [], 0.0, 0
    for values in (np.sort(np.asarray(a, float)), np.sort(np.asarray(b, float))):
        cut = int(TRIM * values.size)
        kept = values[cut : values.size - cut]
        means.append(float(kept.mean()))
        winsorised = np.clip(values, kept[0], kept[-1])
        squares += float(((winsorised - winsorised.mean()) ** 2).sum())
        freedom += values.size - 1
    difference = means[0] - means[1]
    deviation = float(np.sqrt(squares / freedom)) if freedom else 0.0
    if deviation == 0:
        return 0.0 if difference == 0 else float(np.copysign(np.inf, difference))
    return 0.642 * difference / deviation
