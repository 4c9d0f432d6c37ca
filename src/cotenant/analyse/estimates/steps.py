"""Changes of level in a series: the best partition into pieces, found exactly."""

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
    """Standard deviation around changing levels, from differences of neighbours, common to all series.

    A step is one difference among many, so their median ignores it. Assumes that steps are rare.
    """
    differences = np.concatenate([np.diff(one) for one in series]) if series else np.empty(0)
    if not differences.size:
        return 0.0
    return float(1.4826 * np.median(np.abs(differences)) / math.sqrt(2))


def penalty(points: int, series: int, df: float, level: float = 0.05) -> float:
    """Squared noise that a step must save, so that pure noise yields steps in at most ``level`` of cases.

    Bonferroni over ``points`` - 1 places in ``series`` series; the noise was estimated with ``df`` degrees of freedom.
    """
    from scipy import special

    places = max(1, (points - 1) * series)
    return float(special.stdtrit(df, 1 - level / 2 / places)) ** 2


def find_steps(values: Floats, noise: float, cost_of_step: float, least: float = 0.0) -> list[Step]:
    """The steps of the partition that minimises squared residuals / noise^2 + ``cost_of_step`` per step.

    Exact: considers all partitions, by dynamic programming in n^2 steps. Steps smaller than ``least`` are then merged,
    smallest first. Assumes independent noise of equal spread around constant levels.
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
