"""Are these GPUs alike at all: k-sample Anderson-Darling, Kolmogorov-Smirnov of every pair, robust effect sizes."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cotenant.analyse.intervals import Floats
from cotenant.analyse.multiple import benjamini_hochberg
from cotenant.analyse.variability.readings import Readings

FEWEST_RUNS = 3
MOST_VALUES = 20_000
MOST_GPUS = 400
"""Pairs are taken of so many GPUs at most, spread evenly from fast to slow."""
MOST_PLACES = 1000
"""Where distributions are compared."""
TRIM = 0.2
LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Alikeness:
    """Whether the GPUs' times could be draws from one distribution."""

    anderson_darling: float | None
    """Normalised statistic of the k-sample test; None: too few runs."""
    p_value: float | None
    """At least 0.001, at most 0.25: the table of the test reaches no further."""
    gpus: int
    """GPUs with enough runs to be tested."""
    pairs: int
    differing: int
    """Pairs that differ with at most 5 % of false ones among them (Benjamini-Hochberg)."""
    median_effect: float | None
    """Median over the differing pairs of the robust effect size: 0.2 is small, 0.8 large."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


def alikeness(readings: Readings) -> Alikeness:
    """Test GPUs with at least three runs each. Assumes runs of a GPU are independent, which drift would break."""
    rows = readings.thinned(MOST_VALUES)
    samples = [values for values in rows.of_gpu(rows.time_ms) if values.size >= FEWEST_RUNS]
    if len(samples) < 2:
        return Alikeness(None, None, len(samples), 0, 0, None)
    samples = sorted(samples, key=lambda values: float(np.median(values)))
    if len(samples) > MOST_GPUS:
        samples = [samples[place] for place in np.linspace(0, len(samples) - 1, MOST_GPUS).astype(int)]
    statistic, p_value = anderson_darling(samples)
    a, b, p = kolmogorov_smirnov_pairs(samples)
    differ = np.flatnonzero(benjamini_hochberg(p) <= LEVEL)
    shown = differ[:: max(1, differ.size // 2000)]
    effects = [abs(robust_effect(samples[a[pair]], samples[b[pair]])) for pair in shown]
    finite = [effect for effect in effects if np.isfinite(effect)]
    return Alikeness(
        statistic, p_value, len(samples), p.size, differ.size, float(np.median(finite)) if finite else None
    )


def anderson_darling(samples: Sequence[Floats]) -> tuple[float | None, float | None]:
    """The normalised k-sample statistic and its p-value; None where all values are equal."""
    from scipy.stats import anderson_ksamp

    if np.ptp(np.concatenate(samples)) == 0:
        return None, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it tells that p lies at an end of its table, which the caller knows
        found: Any = anderson_ksamp([np.asarray(values) for values in samples])
    return float(found.statistic), float(found.pvalue)


def kolmogorov_smirnov_pairs(samples: Sequence[Floats]) -> tuple[Any, Any, Floats]:
    """Positions of both sides and the p-value of every pair (asymptotic, with Stephens' correction for few values)."""
    from scipy.special import kolmogorov

    grid = np.unique(np.concatenate(samples))
    if grid.size > MOST_PLACES:  # distances come out a little small, so the tests a little careful
        grid = grid[np.linspace(0, grid.size - 1, MOST_PLACES).astype(np.int64)]
    sizes = np.array([values.size for values in samples])
    steps = np.stack([np.searchsorted(np.sort(values), grid, side="right") / values.size for values in samples]).astype(
        np.float32
    )
    k = len(samples)
    first, second = np.triu_indices(k, 1)
    distances = np.concatenate([np.abs(steps[i + 1 :] - steps[i]).max(axis=1) for i in range(k - 1)])
    effective = np.sqrt(sizes[first] * sizes[second] / (sizes[first] + sizes[second]))
    p = kolmogorov((effective + 0.12 + 0.11 / effective) * distances)
    return first, second, np.clip(np.asarray(p, dtype=np.float64), 0, 1)


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
