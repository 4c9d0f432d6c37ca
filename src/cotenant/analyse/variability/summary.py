"""The complete analysis of a kind of work on many GPUs."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from cotenant.analyse.estimates.intervals import SEED, Floats
from cotenant.analyse.tabular import fields_of
from cotenant.analyse.variability.decomposition import Decomposition, Ints, counted, decompose, draws_of, estimated
from cotenant.analyse.variability.drift import Drift, find_drift, slow_since
from cotenant.analyse.variability.readings import SENSORS, FleetReadings
from cotenant.analyse.variability.slow import FEW_GPUS, SickSensor, SlowGpu, sick_sensors, slow_fence, slow_gpus
from cotenant.analyse.variability.variation import GpuProfile, Variation, gpu_profiles, variation
from cotenant.tenancy.interval import Missing, Number

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
    """Whether the GPUs' times could share a distribution."""

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


def alikeness(readings: FleetReadings) -> Alikeness:
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
    """Probability that two samples of a continuous distribution differ by at least ``distance`` / (n m).

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


@dataclass(frozen=True, slots=True)
class Variability:
    """All of it."""

    work: str
    """What ran, under which settings."""
    simulated: bool
    variation: Variation
    decomposition: Decomposition
    correlations: dict[str, Number]
    """Spearman's, of the GPUs' median times with their clocks, temperatures and powers."""
    alikeness: Alikeness
    straggler: dict[int, Number]
    slow: tuple[SlowGpu, ...]
    sick_sensors: tuple[SickSensor, ...]
    drift: Drift
    profiles: tuple[GpuProfile, ...]
    noun: str = "GPU"
    """What to call one of them: `GPU`, `core`."""
    undecided: str = ""
    """Why none can be called slow, whatever the medians; empty if it was tested, or there are enough of them."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return fields_of(self, profiles="gpus")


def analyse_variability(readings: FleetReadings, work: str = "", *, simulated: bool = False) -> Variability:
    """Analyse a kind of work. Needs at least a row."""
    if not len(readings):
        raise ValueError("there are no readings to analyse")
    tested, changes = alikeness(readings), find_drift(readings)
    undecided = _undecided(readings, tested)
    return Variability(
        work=work,
        simulated=simulated,
        variation=variation(readings),
        decomposition=decompose(readings),
        correlations=rank_correlations(readings),
        alikeness=tested,
        straggler=straggler_cost(readings.gpu_times),
        slow=() if undecided else _slow_now(readings, changes),
        sick_sensors=sick_sensors(readings),
        drift=changes,
        profiles=gpu_profiles(readings),
        noun=readings.noun,
        undecided=undecided,
    )


def _undecided(readings: FleetReadings, tested: Alikeness) -> str:
    """One of few is always the slowest: unless a test shows that they differ, none is called slow."""
    if tested.p_value is not None:
        return f"their times are indistinguishable (p = {tested.p_value:.2g})" if tested.p_value > LEVEL else ""
    few = 1 < len(readings.gpus) < FEW_GPUS and bool(np.ptp(readings.gpu_times))
    return f"it takes {FEWEST_RUNS} runs of each to distinguish them" if few else ""


def _slow_now(readings: FleetReadings, changes: Drift) -> tuple[SlowGpu, ...]:
    """GPUs that are slow now, after their last step, with the day on which they became slow."""
    now = readings.since({change.gpu: change.at_s for change in changes.changes if change.kind == "step"})
    fence, middle = slow_fence(now.gpu_times), float(np.median(readings.gpu_times))
    usual = dict(zip(readings.gpus, readings.gpu_times / middle, strict=True))
    return tuple(
        replace(gpu, since_s=slow_since(changes.changes, gpu.gpu, float(usual[gpu.gpu]), fence))
        for gpu in slow_gpus(now)
    )


def rank_correlations(readings: FleetReadings) -> dict[str, Number]:
    """Spearman's coefficient of time with each sensor, over GPUs that have both; Missing where either never varied."""
    return {name: _of(readings.gpu_times, readings.medians(getattr(readings, name))) for name in SENSORS}


def rank_correlation(a: Floats, b: Floats, counts: Ints | None = None) -> Any:
    """Spearman's coefficient; NaN where either side is constant.

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


SIZES = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def straggler_cost(gpu_times: Floats, sizes: Sequence[int] = SIZES) -> dict[int, Number]:
    """Expected time of the slowest of k random GPUs over the median GPU, by k; sizes beyond the fleet are left out.

    Exact for this fleet: every choice of k of its GPUs is equally likely.
    """
    times = np.sort(np.asarray(gpu_times, dtype=np.float64))
    n = times.size
    if n < 2:
        return {2: Missing("it needs at least two GPUs", n)}
    drawn = np.sort(times[draws_of(n)], axis=1)
    middles = np.median(drawn, axis=1)
    found: dict[int, Number] = {}
    for k in sizes:
        if k > n:
            break
        chances = _chances(n, k)
        resampled = np.asarray(drawn @ chances / middles)
        found[k] = estimated(float(times @ chances / np.median(times)), resampled.view, n)
    return found


def _chances(n: int, k: int) -> Floats:
    """Probability that the i-th fastest of n is the slowest of k: C(i - 1, k - 1) / C(n, k), by logarithms."""
    chances = np.zeros(n)
    whole = _log_choose(n, k)
    for place in range(k, n + 1):
        chances[place - 1] = math.exp(_log_choose(place - 1, k - 1) - whole)
    return chances


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
