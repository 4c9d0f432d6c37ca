"""Where a series of numbers changes its level: the best partition into pieces, found exactly."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.analyse.estimates.intervals import Floats


@dataclass(frozen=True, slots=True)
class Step:
    """A change of level between two neighbours of a series."""

    at: int
    """Position of the first value on the new level."""
    before: float
    after: float
    error: float
    """Standard error of after - before."""


def noise_of(series: Sequence[Floats]) -> float:
    """The standard deviation around levels that may change, from differences of neighbours; the series share it.

    A step is one difference among many, so their median does not feel it. Assumes steps are rarer than that.
    """
    differences = np.concatenate([np.diff(one) for one in series]) if series else np.empty(0)
    if not differences.size:
        return 0.0
    return float(1.4826 * np.median(np.abs(differences)) / math.sqrt(2))


def penalty(points: int, series: int, df: float, level: float = 0.05) -> float:
    """What a step has to save in squared noise, so that steps in mere noise are found in at most ``level`` of cases.

    Any of ``points`` - 1 places in any of ``series`` series could show one (Bonferroni); the noise was estimated with
    ``df`` degrees of freedom.
    """
    from scipy import special

    places = max(1, (points - 1) * series)
    return float(special.stdtrit(df, 1 - level / 2 / places)) ** 2


def find_steps(values: Floats, noise: float, cost_of_step: float, least: float = 0.0) -> list[Step]:
    """The steps of the partition that minimises squared residuals / noise^2 + ``cost_of_step`` per step.

    Exact: all partitions are considered, by dynamic programming in n^2 steps. Steps smaller than ``least`` are then
    joined away, smallest first. Assumes independent noise of equal spread around constant levels.
    """
    data = np.asarray(values, dtype=np.float64)
    n = data.size
    if n < 2:
        return []
    sums, squares = (np.concatenate(([0.0], np.cumsum(part))) for part in (data, data**2))
    scale = max(noise, 1e-12) ** 2
    best = np.full(n + 1, math.inf)
    best[0] = -cost_of_step
    origin = np.zeros(n + 1, dtype=np.int64)
    for end in range(1, n + 1):
        starts = np.arange(end)
        total = sums[end] - sums[starts]
        residual = np.maximum(squares[end] - squares[starts] - total**2 / (end - starts), 0) / scale
        costs = best[starts] + residual + cost_of_step
        origin[end] = int(np.argmin(costs))
        best[end] = costs[origin[end]]
    bounds = [n]
    while bounds[-1] > 0:
        bounds.append(int(origin[bounds[-1]]))
    return _steps(data, _large_enough(data, bounds[::-1], least), noise)


def _large_enough(data: Floats, bounds: list[int], least: float) -> list[int]:
    while len(bounds) > 2:
        levels = [float(data[a:b].mean()) for a, b in itertools.pairwise(bounds)]
        jumps = [abs(b - a) for a, b in itertools.pairwise(levels)]
        smallest = int(np.argmin(jumps))
        if jumps[smallest] >= least:
            break
        del bounds[smallest + 1]
    return bounds


def _steps(data: Floats, bounds: list[int], noise: float) -> list[Step]:
    pieces = list(itertools.pairwise(bounds))
    return [
        Step(
            at=b,
            before=float(data[a:b].mean()),
            after=float(data[b:c].mean()),
            error=noise * math.sqrt(1 / (b - a) + 1 / (c - b)),
        )
        for (a, b), (_, c) in itertools.pairwise(pieces)
    ]
