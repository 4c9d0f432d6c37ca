"""Correlation of blocks: how much less a correlated block tells than an independent block.

From a series of some seventy blocks the correlation of neighbours is known to ±0.12 only, and that of blocks further
apart, small but many, not at all: single slowdowns were widened by up to a third for nothing, and slow changes of the
machine went unseen (four of five intervals held instead of 19 of 20). All slowdowns of a run are taken on the same
machine at the same time: what they have in common is known several times better. It is what the middle half of them
shows: of the six pairs and groups of a run two may drift while the others don't, and their correlation is their own. A
series whose own is clearly larger keeps it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cotenant.analyse.estimates.distributions import student_t
from cotenant.analyse.estimates.robust import huber

Floats = npt.NDArray[np.float64]

FEWEST = 12
"""Values for a usable estimate."""
LARGEST = 0.9
CLEARLY = 2.5
"""Standard errors by which a series exceeds the common correlation before it keeps its own."""
REACH = 8
"""Lags up to this fraction of the length count, the further half of them less and less."""
MOST = 8.0
"""Largest inflation: beyond it a run is too short to tell."""
_ROUNDS = 5


class Common(NamedTuple):
    """What several series of blocks have in common."""

    neighbours: float
    """Correlation of neighbours."""
    inflation: float
    """Variance of a mean over that of as many independent blocks, at least 1."""

    def holds_for(self, influence: Floats) -> bool:
        """Neither the correlation of neighbours in this series nor all of it is clearly larger."""
        found = lags(influence, max(1, influence.size // REACH))
        weights, root = _trapezium(found.size), math.sqrt(influence.size)
        chance = 2 * float(np.linalg.norm(weights)) / root * self.inflation
        return (
            float(found[0]) <= self.neighbours + CLEARLY / root
            and 1 + 2 * float(weights @ found) <= self.inflation + CLEARLY * chance
        )


def common_correlation(series: Iterable[Floats]) -> Common | None:
    """What the middle half has in common, each weighted by its length, whatever its spread; None if all are short.

    The inflation is one plus twice the sum of the correlations, under a trapezium (Politis and Romano's flat top).
    """
    long_enough = [huber(values).influence for values in series if len(values) >= FEWEST]
    if not long_enough:
        return None
    sizes = np.array([influence.size for influence in long_enough])
    typical = float(sizes.mean())
    reach = max(1, int(typical // REACH))
    found = np.stack([lags(influence, reach) for influence in long_enough])
    weights = _trapezium(reach)
    spared = len(found) // 4
    middle = np.argsort(found @ weights, kind="stable")[spared : len(found) - spared]
    mean: Floats = sizes[middle] @ found[middle] / sizes[middle].sum()
    inflation = 1.0
    for _ in range(_ROUNDS):  # taking the mean out of a series lowers each lag by the inflation over the length
        inflation = min(max(1 + 2 * float(weights @ (mean + inflation / typical)), 1.0), MOST)
    return Common(_corrected(float(mean[0]), typical), inflation)


def _trapezium(reach: int) -> Floats:
    return np.clip(2 * (1 - np.arange(1, reach + 1) / (reach + 1)), 0, 1)


def lag_correlation(influence: Floats) -> float:
    """Correlation of neighbours in a series, if beyond its standard error, else 0."""
    n = influence.size
    own = float(lags(influence, 1)[0])
    return min(_corrected(own, n), LARGEST) if own > 1 / math.sqrt(n) else 0.0


def lags(data: Floats, reach: int) -> Floats:
    """Correlations at lag 1, 2 and so on."""
    centred = data - data.mean()
    variance = float(centred @ centred)
    if variance == 0:
        return np.zeros(reach)
    return np.array([float(centred[lag:] @ centred[:-lag]) / variance for lag in range(1, reach + 1)])


def _corrected(raw: float, n: float) -> float:
    """Without the bias of short series."""
    return raw + (1 + 3 * raw) / n


# --- how much less information a correlated request carries than an independent request

STRETCHES = 12
"""Fewest stretches to cut the trials into: with fewer, their variance is poorly known."""


@dataclass(frozen=True, slots=True)
class Stretches:
    """Requests of a trial, cut into stretches in the order in which they were due."""

    sizes: npt.NDArray[np.int64]
    hits: npt.NDArray[np.int64]


def stretch_bounds(size: int, trials: int) -> npt.NDArray[np.int64]:
    """Cut points for a trial of ``size`` requests, so that all trials together give enough stretches."""
    pieces = max(1, min(math.ceil(STRETCHES / trials), size))
    return np.arange(pieces + 1, dtype=np.int64) * size // pieces


def design_effect(trials: Sequence[Stretches]) -> float:
    """The larger of the effects between stretches and between trials; at least 1.

    Includes the uncertainty of the variance itself (few stretches, fewer trials), by Student's t. Assumes that trials
    are independent and that correlation within a trial either dies out within a stretch or shows between trials.
    """
    sizes, hits = np.concatenate([trial.sizes for trial in trials]), np.concatenate([trial.hits for trial in trials])
    between = _effect(sizes, hits)
    if sizes.size == len(trials):
        return max(1.0, between)
    starts = np.cumsum([0, *(trial.sizes.size for trial in trials[:-1])])
    return max(1.0, between, _effect(np.add.reduceat(sizes, starts), np.add.reduceat(hits, starts)))


def _effect(sizes: npt.NDArray[np.int64], hits: npt.NDArray[np.int64]) -> float:
    """Variance of the share between clusters over the binomial's, inflated for the uncertainty of the former."""
    clusters, total = sizes.size, int(sizes.sum())
    share = float(hits.sum()) / total if total else 0.0
    if clusters < 2 or not 0 < share < 1:
        return 1.0
    residuals = hits - share * sizes
    variance = clusters / (clusters - 1) * float(residuals @ residuals) / total**2
    doubt = (student_t(clusters - 1) / student_t(math.inf)) ** 2
    return variance / (share * (1 - share) / total) * doubt
