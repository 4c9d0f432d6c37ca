"""The mean time of a unit of work, by level of its neighbours, at equal own load and free of drift.

The model is log-linear: each block of time has a level of its own (drift, and neighbours that nobody sees), the
tenant's own load has a smooth effect, and each level of each neighbour multiplies the time. Servers publish sums and
counts, so it is fitted to the mean of each interval (a gamma regression: right on average whatever the distribution of
single requests, unlike a fit to logarithms). The interval comes from leaving out each block in turn, which allows for
correlation within blocks.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from cotenant.analyse.neighbours.totals import Floats

Bools = npt.NDArray[np.bool_]

_STEPS = 25
_NEAR = 1e-8
_RIDGE = 1e-6


@dataclass(frozen=True, slots=True)
class Rows:
    """Intervals in which everything is known."""

    mean: Floats
    """Mean time of a unit of work."""
    units: Floats
    """How many the mean is over."""
    block: Floats
    """Number of the block each interval belongs to."""
    own: Floats
    """Columns of the tenant's own load."""
    levels: Floats
    """Columns of zeros and ones: the neighbours' levels above their reference."""
    whose: tuple[int, ...]
    """The neighbour each of these columns belongs to."""

    def where(self, kept: Bools) -> "Rows":
        """Some of them."""
        return replace(
            self,
            mean=self.mean[kept],
            units=self.units[kept],
            block=self.block[kept],
            own=self.own[kept],
            levels=self.levels[kept],
        )

    def informative(self, column: int) -> set[float]:
        """Blocks in which the neighbour was at this level at some times and at its reference at others."""
        same = [at for at, neighbour in enumerate(self.whose) if neighbour == self.whose[column]]
        reference = ~(self.levels[:, same] > 0).any(axis=1)
        at = self.levels[:, column] > 0
        return set(self.block[at].tolist()) & set(self.block[reference].tolist())


@dataclass(frozen=True, slots=True)
class Effect:
    """The logarithm of a factor."""

    log: float
    error: float
    """Standard error; NaN if too few blocks."""
    blocks: int
    """Blocks that contain both sides of the comparison."""


def effects(rows: Rows) -> list[Effect]:
    """One effect for each column of ``levels``."""
    columns = rows.levels.shape[1]
    weights = _weights(rows)
    whole = _fit(rows, weights)
    blocks = np.unique(rows.block)
    left_out = []
    for block in blocks:
        kept = rows.block != block
        part = rows.where(kept)
        left_out.append(_fit(part, weights[kept]) if part.mean.size > columns + 4 else whole)
    found = []
    for column in range(columns):
        telling = rows.informative(column)
        chosen = np.array(
            [estimate[column] for estimate, block in zip(left_out, blocks, strict=True) if block in telling]
        )
        count = chosen.size
        error = math.sqrt((count - 1) / count * float(((chosen - chosen.mean()) ** 2).sum())) if count > 1 else math.nan
        found.append(Effect(float(whole[column]), error, count))
    return found


def block_levels(rows: Rows) -> dict[float, float]:
    """By block: the logarithm of its mean time at the usual own load."""
    _, factors = _solved(rows, _weights(rows))
    blocks = np.unique(rows.block)
    return dict(zip(blocks.tolist(), factors[-blocks.size :].tolist(), strict=True))


def residuals(rows: Rows) -> Floats:
    """Measured mean over the fitted mean, minus 1, of each interval."""
    design, factors = _solved(rows, _weights(rows))
    residual: Floats = rows.mean / np.exp(design @ factors) - 1
    return residual


def _fit(rows: Rows, weights: Floats) -> Floats:
    _, factors = _solved(rows, weights)
    return factors[: rows.levels.shape[1]]


def _weights(rows: Rows) -> Floats:
    """A mean over more requests is better, but only until what they share (an unseen neighbour) is all that is left."""
    design, factors = _solved(rows, rows.units)
    square = (rows.mean / np.exp(design @ factors) - 1) ** 2
    inverse = 1 / rows.units
    # Of the usual intervals only: a single outlier would decide everything.
    kept = square <= np.quantile(square, 0.98)
    single = max(float((square * rows.units)[kept].mean()), 1e-12)
    shared = 0.0
    for _ in range(5):
        shared = max(0.0, float(np.mean(square[kept] - single * inverse[kept])))
        single = max(float(np.mean((square[kept] - shared) * rows.units[kept])), 0.05 * single)
    weights: Floats = 1 / (single * inverse + shared)
    return weights / float(weights.mean())


def _solved(rows: Rows, weights: Floats) -> tuple[Floats, Floats]:
    """Iteratively reweighted least squares; for a gamma regression with a log link the weights stay the same."""
    _, number = np.unique(rows.block, return_inverse=True)
    blocks = np.zeros((rows.mean.size, int(number.max()) + 1))
    blocks[np.arange(rows.mean.size), number] = 1.0
    design = np.hstack([rows.levels, rows.own, blocks])
    own = slice(rows.levels.shape[1], rows.levels.shape[1] + rows.own.shape[1])
    factors = np.zeros(design.shape[1])
    factors[own.stop :] = math.log(float(np.average(rows.mean, weights=rows.units)))
    weighted = design * weights[:, None]
    gram = design.T @ weighted
    gram[np.diag_indices_from(gram)] += _RIDGE * float(weights.sum())
    solve = np.linalg.pinv(gram, hermitian=True)
    for _ in range(_STEPS):
        relative = np.clip(rows.mean / np.exp(np.clip(design @ factors, -60, 60)) - 1, -1.0, 4.0)
        step = solve @ (weighted.T @ relative)
        factors = factors + np.clip(step, -1.5, 1.5)
        if float(np.abs(step).max()) < _NEAR:
            break
    return design, factors


# --- how busy a neighbour was in each interval: idle, light or busy

Level = Literal["idle", "light", "busy"]
LEVELS: tuple[Level, ...] = ("idle", "light", "busy")

IDLE_BELOW, BUSY_FROM = 0.02, 0.5
"""Shares of the neighbour's own top rate."""
TOP = 0.9
"""The quantile of its rates above zero that counts as its top: a single burst shall not define it."""
FEWEST = 6
"""Intervals at a level before anything is said about it."""


@dataclass(frozen=True, slots=True)
class Levels:
    """A neighbour's levels, and where they begin, in the unit of its activity per second."""

    light_from: float
    busy_from: float
    at: Floats
    """0 idle, 1 light, 2 busy; NaN unknown."""

    def seen(self, level: Level) -> int:
        """Intervals at a level."""
        return int((self.at == LEVELS.index(level)).sum())


def levels_of(rate: Floats) -> Levels:
    """Split a neighbour's activity by its own top."""
    known = rate[np.isfinite(rate) & (rate > 0)]
    top = float(np.quantile(known, TOP)) if known.size else 0.0
    light, busy = IDLE_BELOW * top, _round(BUSY_FROM * top)
    at = np.where(rate <= light, 0.0, np.where(rate >= busy, 2.0, 1.0)) if top else np.zeros(rate.size)
    return Levels(light, busy, np.where(np.isfinite(rate), at, np.nan))


def _round(value: float) -> float:
    """To two digits: the threshold is printed, so what is printed is what was used."""
    return float(f"{value:.2g}")
