"""How far apart GPUs are: whisker range, slowest over median, spread, and how well one GPU repeats itself."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cotenant.analyse.intervals import Floats
from cotenant.analyse.missing import Number
from cotenant.analyse.variability.readings import Readings
from cotenant.analyse.variability.resampling import Ints, counted, draws_of, estimated

WHISKER = 1.5
MOST_POINTS = 50_000
"""Resampling works on so many values: each GPU's quantiles instead of all its runs where there are more."""


@dataclass(frozen=True, slots=True)
class Variation:
    """Of the time per request. Shares: 0.087 is 8.7 %."""

    runs: int
    gpus: int
    median_ms: float
    whisker_range: Number
    """Range of the box plot's whiskers over the median, all runs together."""
    max_over_median: Number
    """The slowest run over the median run; its interval leans down, as a resample can't hold a slower one."""
    cv: Number
    """Standard deviation over mean of the GPUs' medians."""
    outliers: float
    """Share of runs outside the whiskers."""
    repeatability: Number
    """Coefficient of variation of one GPU's runs, the median over GPUs."""
    repeatability_p95: float | None
    """The same for the 95th of a hundred GPUs."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "runs": self.runs,
            "gpus": self.gpus,
            "median_ms": self.median_ms,
            "whisker_range": self.whisker_range.to_json(),
            "max_over_median": self.max_over_median.to_json(),
            "cv": self.cv.to_json(),
            "outliers": self.outliers,
            "repeatability": self.repeatability.to_json(),
            "repeatability_p95": self.repeatability_p95,
        }


def variation(readings: Readings) -> Variation:
    """All of it. Assumes GPUs are independent draws of one population; runs of a GPU need not be independent."""
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
            float((inside.max() - inside.min()) / middle), lambda: _whisker_ranges(readings, counted(draws)), gpus
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
    """Above it a value is an outlier of its box plot."""
    low, high = np.percentile(values, [25, 75])
    return float(high + WHISKER * (high - low))


def repeatability(readings: Readings) -> Floats:
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


def _reduced(readings: Readings) -> tuple[Floats, Ints, Floats]:
    """Sorted values, their GPU, and how many runs each stands for: each GPU's quantiles if the runs are too many."""
    each = max(5, MOST_POINTS // len(readings.gpus))
    values, gpus, weights = [], [], []
    for number, runs in enumerate(readings.of_gpu(readings.time_ms)):
        ordered = np.sort(runs)
        chosen = ordered
        if ordered.size > each:
            chosen = ordered[np.linspace(0, ordered.size - 1, each).round().astype(np.int64)]
        values.append(chosen)
        gpus.append(np.full(chosen.size, number))
        weights.append(np.full(chosen.size, runs.size / max(1, chosen.size)))
    flat = np.concatenate(values)
    order = np.argsort(flat, kind="stable")
    return flat[order], np.concatenate(gpus)[order], np.concatenate(weights)[order]


def _whisker_ranges(readings: Readings, counts: Ints) -> Floats:
    values, gpu, weight = _reduced(readings)
    ranges = np.empty(len(counts))
    for number, drawn in enumerate(counts):
        mass = drawn[gpu] * weight
        total = np.cumsum(mass)
        low, middle, high = values[np.searchsorted(total, total[-1] * np.array([0.25, 0.5, 0.75]))]
        reach = WHISKER * (high - low)
        a, b = np.searchsorted(values, [low - reach, high + reach]).tolist()
        present = np.flatnonzero(mass[a:b])
        ranges[number] = (values[a + present[-1]] - values[a + present[0]]) / middle
    return ranges


def _slowest_over_median(readings: Readings, counts: Ints) -> Floats:
    values, gpu, weight = _reduced(readings)
    slowest = np.array([runs.max() for runs in readings.of_gpu(readings.time_ms)])
    ratios = np.empty(len(counts))
    for number, drawn in enumerate(counts):
        total = np.cumsum(drawn[gpu] * weight)
        ratios[number] = slowest[drawn > 0].max() / values[np.searchsorted(total, total[-1] / 2)]
    return ratios
