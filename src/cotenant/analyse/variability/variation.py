"""How far apart GPUs are: whisker range, slowest over median, spread, and how well a GPU repeats itself."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cotenant.analyse.estimates.distributions import student_t
from cotenant.analyse.estimates.intervals import SEED, Floats
from cotenant.analyse.variability.decomposition import Ints, counted, draws_of, estimated
from cotenant.analyse.variability.readings import FleetReadings
from cotenant.tenancy.interval import Interval, Number

WHISKER = 1.5
MOST_POINTS = 50_000
"""Most values to resample: beyond it, each GPU's quantiles stand for its runs."""
MOST_MOVED, MOST_MOVES, FEWEST_MOVES = 10_000, 400, 100
"""The same where every resample must be sorted again, and the number of resamples."""


@dataclass(frozen=True, slots=True)
class Variation:
    """Variation of the time per request. Shares: 0.087 is 8.7 %."""

    runs: int
    gpus: int
    median_ms: float
    whisker_range: Number
    """Range of the box plot's whiskers over the median, all runs together."""
    max_over_median: Number
    """The slowest run over the median run; its interval is biased low, as a resample can't contain a slower run."""
    cv: Number
    """Standard deviation over mean of the GPUs' medians."""
    outliers: float
    """Share of runs outside the whiskers."""
    repeatability: Number
    """Coefficient of variation of a GPU's runs, median over GPUs."""
    repeatability_p95: float | None
    """The same for the 95th of a hundred GPUs."""


def variation(readings: FleetReadings) -> Variation:
    """Compute all measures. Assumes independent GPUs of a single population; runs of a GPU need not be."""
    times = readings.time_ms
    gpus = len(readings.gpus)
    low, middle, high = (float(edge) for edge in np.percentile(times, [25, 50, 75]))
    inside = _inside(times, low, high)
    draws = draws_of(gpus)
    within = repeatability(readings)
    known = within[np.isfinite(within)]
    return Variation(
        runs=len(readings),
        gpus=gpus,
        median_ms=middle,
        whisker_range=estimated(
            float((inside.max() - inside.min()) / middle), lambda: _whisker_ranges(readings, draws), gpus
        ),
        max_over_median=estimated(
            float(times.max() / middle), lambda: _slowest_over_median(readings, counted(draws)), gpus
        ),
        cv=estimated(float(_cv(readings.gpu_times)), lambda: _cv(readings.gpu_times[draws]), gpus),
        outliers=1 - inside.size / times.size,
        repeatability=estimated(
            float(np.median(known)) if known.size else np.nan, lambda: np.nanmedian(within[draws], axis=1), gpus
        )
        if known.size
        else estimated(np.nan, lambda: known, gpus),
        repeatability_p95=float(np.percentile(known, 95)) if known.size else None,
    )


def whisker_range(values: Floats) -> float:
    """(highest - lowest value within 1.5 quartile ranges of the box) / median."""
    low, middle, high = (float(edge) for edge in np.percentile(values, [25, 50, 75]))
    inside = _inside(values, low, high)
    return float((inside.max() - inside.min()) / middle)


def upper_fence(values: Floats) -> float:
    """Values above this are outliers of their box plot."""
    low, high = np.percentile(values, [25, 75])
    return float(high + WHISKER * (high - low))


def repeatability(readings: FleetReadings) -> Floats:
    """Each GPU's coefficient of variation over its runs; NaN for a single run."""
    return np.array(
        [
            float(values.std(ddof=1) / values.mean()) if values.size > 1 else np.nan
            for values in readings.of_gpu(readings.time_ms)
        ]
    )


def _inside(values: Floats, low: float, high: float) -> Floats:
    reach = WHISKER * (high - low)
    return values[(values >= low - reach) & (values <= high + reach)]


def _cv(values: Floats) -> Any:
    return values.std(axis=-1, ddof=1) / values.mean(axis=-1) if values.shape[-1] > 1 else np.nan


def _reduced(readings: FleetReadings, most: int) -> tuple[Floats, Floats]:
    """A row for each GPU: its runs, or quantiles of them if too many; and the runs that each value stands for."""
    width = int(min(readings.counts.max(), max(5, most // len(readings.gpus))))
    values, weights = np.zeros((len(readings.gpus), width)), np.zeros((len(readings.gpus), width))
    for number, runs in enumerate(readings.of_gpu(readings.time_ms)):
        ordered = np.sort(runs)
        if ordered.size > width:
            ordered = ordered[np.linspace(0, ordered.size - 1, width).round().astype(np.int64)]
        values[number, : ordered.size] = ordered
        weights[number, : ordered.size] = runs.size / ordered.size
    return values, weights


def _whisker_ranges(readings: FleetReadings, draws: Ints) -> Floats:
    """Smoothed bootstrap: each drawn GPU is moved a little, as if a similar GPU had been drawn.

    Whiskers end at single GPUs, beyond which no plain resample reaches: its intervals would be too short and end at
    the estimate. The moves widen the fleet, so the result is contracted until it spreads as before.
    """
    values, weights = _reduced(readings, MOST_MOVED)
    times = readings.gpu_times
    deviation = float(times.std(ddof=1))
    low, high = np.percentile(times, [25, 75])
    move = 0.9 * min(deviation, float(high - low) / 1.349) * times.size**-0.2
    together = 1 / np.hypot(1.0, move / deviation) if deviation > 0 else 1.0
    centre = float(times.mean())
    draws = draws[: int(np.clip(4_000_000 // values.size, FEWEST_MOVES, MOST_MOVES))]
    ranges = np.empty(len(draws))
    random = np.random.default_rng(SEED)
    for number, drawn in enumerate(draws):
        shift = (times[drawn] - centre + move * random.standard_normal(drawn.size)) * together + centre - times[drawn]
        flat, mass = (values[drawn] + shift[:, None]).ravel(), weights[drawn].ravel()
        order = np.argsort(flat[mass > 0])
        flat, mass = flat[mass > 0][order], mass[mass > 0][order]
        total = np.cumsum(mass)
        low, middle, high = flat[np.searchsorted(total, total[-1] * np.array([0.25, 0.5, 0.75]))]
        reach = WHISKER * (high - low)
        inside = flat[(flat >= low - reach) & (flat <= high + reach)]
        ranges[number] = (inside[-1] - inside[0]) / middle
    return ranges


def _slowest_over_median(readings: FleetReadings, counts: Ints) -> Floats:
    values, weights = _reduced(readings, MOST_POINTS)
    there = weights > 0
    order = np.argsort(values[there], kind="stable")
    flat, mass, gpu = values[there][order], weights[there][order], np.nonzero(there)[0][order]
    slowest = np.array([runs.max() for runs in readings.of_gpu(readings.time_ms)])
    ratios = np.empty(len(counts))
    for number, drawn in enumerate(counts):
        total = np.cumsum(drawn[gpu] * mass)
        ratios[number] = slowest[drawn > 0].max() / flat[np.searchsorted(total, total[-1] / 2)]
    return ratios


# --- a line per GPU, with what placement needs


@dataclass(frozen=True, slots=True)
class GpuProfile:
    """A GPU under a kind of work. None: not recorded."""

    gpu: str
    cabinet: str
    node: str
    runs: int
    time_ms: float
    """Median."""
    relative_time: Interval
    """Its median over the median of all runs: 1.05 takes 5 % longer (Student t over runs). Placement sorts by it."""
    worst_relative_time: float
    """Its slowest run over the same."""
    clock_mhz: float | None
    temperature_c: float | None
    power_w: float | None
    energy_j: float | None
    """Energy per request: power times time."""


def gpu_profiles(readings: FleetReadings) -> tuple[GpuProfile, ...]:
    """Every GPU, in the order of the readings."""
    middle = float(np.median(readings.time_ms))
    clock, heat, power = (
        readings.medians(column) for column in (readings.clock_mhz, readings.temperature_c, readings.power_w)
    )
    found = []
    for number, (gpu, times) in enumerate(zip(readings.gpus, readings.of_gpu(readings.time_ms), strict=True)):
        typical = float(readings.gpu_times[number])
        reach = student_t(times.size - 1) * float(times.std(ddof=1)) / times.size**0.5 if times.size > 1 else None
        relative = Interval(typical, *(() if reach is None else (typical - reach, typical + reach))).scaled(1 / middle)
        watts = _known(power[number])
        found.append(
            GpuProfile(
                gpu,
                readings.place_of(number, "cabinet"),
                readings.place_of(number, "node"),
                int(times.size),
                typical,
                relative,
                float(times.max()) / middle,
                _known(clock[number]),
                _known(heat[number]),
                watts,
                None if watts is None else watts * typical / 1e3,
            )
        )
    return tuple(found)


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class Box:
    """One GPU's times in ms; whiskers end at the outermost run within 1.5 quartile ranges of the box."""

    gpu: str
    runs: int
    low: float
    q1: float
    median: float
    q3: float
    high: float
    outliers: int


def boxes(readings: FleetReadings) -> tuple[Box, ...]:
    """Every GPU, from fast to slow."""
    found = []
    for gpu, times in zip(readings.gpus, readings.of_gpu(readings.time_ms), strict=True):
        q1, middle, q3 = (float(edge) for edge in np.percentile(times, [25, 50, 75]))
        reach = WHISKER * (q3 - q1)
        inside = times[(times >= q1 - reach) & (times <= q3 + reach)]
        found.append(
            Box(
                gpu, int(times.size), float(inside.min()), q1, middle, q3, float(inside.max()), times.size - inside.size
            )
        )
    return tuple(sorted(found, key=lambda box: box.median))
