"""Whether a tenant reached a steady state within its window and, if not, how it behaved.

Change points come from exact optimal partitioning under a model of normal stretches with their own mean and variance
and a penalty of 15 ln n per change, after Barrett et al. (2017). Nothing is trimmed: the class is reported.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from cotenant.analyse.estimates.distributions import t_quantile
from cotenant.analyse.estimates.intervals import Floats, Numbers, averaged

Indices = npt.NDArray[np.int64]
WarmUp = Literal["flat", "warm-up", "slowdown", "no steady state"]

MOST_POINTS = 200
FEWEST_POINTS = 20
SHORTEST_STRETCH = 5
TOLERANCE = 0.05
"""Changes of level below this share of the median are ignored."""
STEADY_PART = 0.25
"""The final share of the window that must be at a constant level for the state to count as steady."""


@dataclass(frozen=True, slots=True)
class Steadiness:
    """The class of a series and where its level changed."""

    kind: WarmUp
    changes: tuple[int, ...]
    """Positions at which a new level begins; negligible changes are left out."""
    levels: tuple[float, ...]
    """Mean of each stretch between changes, one more than there are changes."""
    note: str | None = None


def classify(series: Numbers, most_points: int = MOST_POINTS) -> WarmUp:
    """The class alone; see `steadiness`."""
    return steadiness(series, most_points).kind


def steadiness(series: Numbers, most_points: int = MOST_POINTS) -> Steadiness:
    """Classify a series of times (higher is slower) in the order in which they were measured.

    Long series are first averaged into points, which also makes them nearly normal, as the model assumes; single
    outliers are pulled towards their neighbours. Correlation longer than a point looks like change, and so is slow
    drift once it exceeds the tolerance.

    Args:
        series: The times.
        most_points: How many points it has at most. Where neighbours come and go, a point must be long enough for
            them to average out.
    """
    raw = np.asarray(series, dtype=np.float64)
    if min(raw.size, most_points) < FEWEST_POINTS:
        level = (float(raw.mean()),) if raw.size else ()
        return Steadiness("flat", (), level, f"only {min(raw.size, most_points)} points: too few to see a change")
    points = _winsorised(averaged(_without_extremes(raw), most_points))
    bounds = _merged(points, [0, *_change_points(points), points.size])
    levels = [float(points[a:b].mean()) for a, b in pairwise(bounds)]
    ends = [round(bound * raw.size / points.size) for bound in bounds]
    raw_levels = tuple(float(raw[a:b].mean()) for a, b in pairwise(ends))
    return Steadiness(_kind(points, bounds, levels), tuple(ends[1:-1]), raw_levels)


def _kind(points: Floats, bounds: list[int], levels: list[float]) -> WarmUp:
    if len(levels) == 1:
        return "flat"
    if points.size - bounds[-2] < STEADY_PART * points.size:
        return "no steady state"
    tolerance = _tolerance(points, points[bounds[-2] :])
    away = [level - levels[-1] for level in levels[:-1]]
    if any(abs(distance) <= tolerance for distance in away):
        return "no steady state"  # It left its final level and came back, so it may leave again.
    return "warm-up" if all(distance > 0 for distance in away) else "slowdown"


def _tolerance(points: Floats, stretch: Floats) -> float:
    return max(TOLERANCE * abs(float(np.median(points))), float(stretch.std()))


def _merged(points: Floats, bounds: list[int]) -> list[int]:
    """Merge neighbours whose levels differ negligibly, smallest difference first."""
    bounds = list(bounds)
    while len(bounds) > 2:
        excess = []
        for left, middle, right in zip(bounds[:-2], bounds[1:-1], bounds[2:], strict=True):
            before, after = points[left:middle], points[middle:right]
            noise = min(_tolerance(points, before), _tolerance(points, after))
            excess.append(abs(float(before.mean() - after.mean())) / noise if noise else 0.0)
        smallest = int(np.argmin(excess))
        if excess[smallest] > 1:
            break
        del bounds[smallest + 1]
    return bounds


def _without_extremes(raw: Floats) -> Floats:
    """Pull outliers in so that they don't dominate the average of their neighbours, yet remain outliers.

    At least half the median is left, so that a lasting change of level survives however small the noise.
    """
    middle = float(np.median(raw))
    reach = max(6 * 1.4826 * float(np.median(np.abs(raw - middle))), abs(middle) / 2)
    return np.clip(raw, middle - reach, middle + reach)


def _winsorised(points: Floats) -> Floats:
    """Values pulled to within three robust deviations of the median around them; lasting shifts stay."""
    reach = min(7, max(2, points.size // 20))
    padded = np.pad(points, reach, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1)
    middle = np.median(windows, axis=1)
    spread = 1.4826 * np.median(np.abs(points - middle))
    return np.clip(points, middle - 3 * spread, middle + 3 * spread)


def _change_points(points: Floats) -> list[int]:
    """Cuts that minimise the sum of the stretches' costs and the penalties: exact, over all cuts."""
    n = points.size
    penalty = 15 * math.log(n)
    costs = _stretch_costs(points)
    best = np.full(n + 1, np.inf)
    best[0] = -penalty
    came_from = [0] * (n + 1)
    place = 0
    for end in range(SHORTEST_STRETCH, n + 1):
        starts = end - SHORTEST_STRETCH + 1
        totals = best[:starts] + costs[place : place + starts]
        totals += penalty
        came_from[end] = cheapest = int(totals.argmin())
        best[end] = totals[cheapest]
        place += starts
    cuts: list[int] = []
    end = came_from[n]
    while end > 0:
        cuts.append(end)
        end = came_from[end]
    return cuts[::-1]


def _stretch_costs(points: Floats) -> Floats:
    """The cost of every stretch that is long enough, computed at once: indexed by end, then by start."""
    starts, ends, length = _stretches(points.size)
    middle = np.median(points)
    centred = points - middle
    floor = (1e-3 * abs(float(middle))) ** 2 or 1e-300
    sums = np.concatenate(([0.0], np.cumsum(centred)))
    squares = np.concatenate(([0.0], np.cumsum(centred**2)))
    mean = (sums[ends] - sums[starts]) / length
    variance = np.maximum((squares[ends] - squares[starts]) / length - mean**2, floor)
    return np.asarray(length * np.log(variance))


@lru_cache(maxsize=8)
def _stretches(n: int) -> tuple[Indices, Indices, Indices]:
    """Start, end and length of every stretch; the same for every series of n points."""
    ends, starts = np.tril_indices(n + 1, -SHORTEST_STRETCH)
    return starts, ends, ends - starts


# --- changes of level in a series: the best partition into pieces, found exactly


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

    A step is a single difference among many, so their median ignores it. Assumes that steps are rare.
    """
    differences = np.concatenate([np.diff(values) for values in series]) if series else np.empty(0)
    if not differences.size:
        return 0.0
    return float(1.4826 * np.median(np.abs(differences)) / math.sqrt(2))


def penalty(points: int, series: int, df: float, level: float = 0.05) -> float:
    """Squared noise that a step must save, so that pure noise yields steps in at most ``level`` of cases.

    Bonferroni over ``points`` - 1 places in ``series`` series; the noise was estimated with ``df`` degrees of freedom.
    """
    places = max(1, (points - 1) * series)
    return t_quantile(df, 1 - level / 2 / places) ** 2


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
