"""Changes over time: slow drift and sudden steps, of the whole fleet and of single GPUs against it."""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cotenant.analyse.estimates.intervals import Floats, averaged
from cotenant.analyse.estimates.warmup import Step, find_steps, noise_of, penalty
from cotenant.analyse.tabular import fields_of
from cotenant.analyse.variability.readings import FleetReadings
from cotenant.tenancy.interval import Estimate, Missing, Number
from cotenant.text import amount

DAY_S = 86_400.0
MONTH_DAYS = 30.0
FEWEST_RUNS = 8
MOST_POINTS = 64
LEAST = 0.02
"""Changes below 2 % are not worth acting on."""
LEVEL = 0.025
"""False alarm rate, for steps and for drifts: 5 % together."""
FEWEST_DAYS = 5
_STRETCHES = (2, 4, 8)
MOST_ROWS = 1_000_000
"""With more runs, every k-th run of each GPU says as much about levels over time."""


@dataclass(frozen=True, slots=True)
class Change:
    """A step or a drift of a single GPU, or of all."""

    gpu: str
    """Empty: the whole fleet."""
    kind: str
    """`step` or `drift`."""
    at_s: float
    """First run at the new level; of a drift its beginning."""
    before: float
    """Time relative to the GPU's own median."""
    after: float

    @property
    def by(self) -> float:
        """Relative change: 0.05 is 5 % slower."""
        return self.after / self.before - 1

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return fields_of(self, "by")


@dataclass(frozen=True, slots=True)
class Drift:
    """Changes over the time that the readings span."""

    days: float
    per_month: Number
    """Slope of the fleet's daily medians (Theil-Sen), share per 30 days."""
    daily: tuple[tuple[float, float, int], ...]
    """By day: time (s since 1970), median of times relative to each GPU's own median, runs."""
    changes: tuple[Change, ...]
    simulated: bool = False
    """The times come from a model; nothing was measured."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        daily = [{"at_s": at, "relative_time": ratio, "runs": runs} for at, ratio, runs in self.daily]
        return fields_of(self) | {"daily": daily}


def find_drift(readings: FleetReadings) -> Drift:
    """Find steps and drifts. A GPU is compared with the fleet of the same day, so a warm week is not held against it.

    Assumes noise of equal spread around a GPU's level, possibly correlated between runs close in time; then about 5 %
    of fleets without a change show a change in some GPU by chance.
    """
    readings = readings.thinned(MOST_ROWS)
    timed = np.isfinite(readings.at_s)
    if not timed.any():
        return Drift(0.0, Missing("no run has a time of day"), (), ())
    ratio = readings.time_ms / readings.gpu_times[readings.gpu]
    days, day = np.unique(np.floor(readings.at_s[timed] / DAY_S), return_inverse=True)
    order = np.argsort(day, kind="stable")
    bounds = np.searchsorted(day[order], np.arange(days.size + 1))
    sorted_ratio = ratio[timed][order]
    medians = np.array([np.median(sorted_ratio[a:b]) for a, b in itertools.pairwise(bounds)])
    usual = np.ones(len(readings))
    # With few GPUs the day's median is the GPU itself: subtracting it would hide the change.
    if len(readings.gpus) >= FEWEST_RUNS:
        usual[timed] = medians[day]
    span = float(np.ptp(readings.at_s[timed])) / DAY_S
    changes = [*_fleet_steps(days, medians, len(readings.gpus)), *_gpu_changes(readings, ratio / usual, timed)]
    daily = tuple(
        (float(at) * DAY_S, float(middle), int(runs))
        for at, middle, runs in zip(days, medians, np.diff(bounds), strict=True)
    )
    return Drift(span, _slope(days, medians), daily, tuple(changes))


def slow_since(changes: tuple[Change, ...], gpu: str, ratio: float, fence: float) -> float | None:
    """When a GPU last stepped from below the fence to above it; None if it never did.

    ``ratio`` is its median and ``fence`` the threshold of slow, both over the fleet's median.
    """
    steps = [change for change in changes if change.gpu == gpu and change.kind == "step"]
    return next((step.at_s for step in reversed(steps) if step.before * ratio <= fence < step.after * ratio), None)


def _slope(days: Floats, medians: Floats) -> Number:
    from scipy.stats import theilslopes

    if days.size < FEWEST_DAYS:
        return Missing(f"there are runs of {amount(int(days.size), 'day')}, and it needs {FEWEST_DAYS}", int(days.size))
    found: Any = theilslopes(medians, days, 0.95)
    slope, lo, hi = (float(value) * MONTH_DAYS for value in (found[0], found[2], found[3]))
    return Estimate(slope, lo, hi, int(days.size), "Theil-Sen over days")


def _fleet_steps(days: Floats, medians: Floats, gpus: int) -> list[Change]:
    if days.size < FEWEST_RUNS or gpus < 2:
        return []
    steps = _steps(medians, 1, noise_of([medians]))
    return [Change("", "step", float(days[step.at]) * DAY_S, step.before, step.after) for step in steps]


def _gpu_changes(readings: FleetReadings, ratio: Floats, timed: Any) -> list[Change]:
    series: list[tuple[str, Floats, Floats]] = []
    by_day: list[tuple[Floats, Floats]] = []
    for number, gpu in enumerate(readings.gpus):
        a, b = int(readings.starts[number]), int(readings.starts[number + 1])
        chosen = timed[a:b]
        values, at = ratio[a:b][chosen], readings.at_s[a:b][chosen]
        if values.size >= FEWEST_RUNS:
            series.append((gpu, averaged(at, MOST_POINTS), averaged(values, MOST_POINTS)))
            by_day.append(_days_of(at, values))
    # Some series repeat exactly: assume at least the fleet's noise.
    usual = _lasting_noise([values for _, _, values in series])
    changes: list[Change] = []
    for (gpu, at, values), (days, daily) in zip(series, by_day, strict=True):
        steps = _steps(values, len(series), max(noise_of([values]), usual))
        if steps and _line_fits_better(at, values, steps):
            steps = []
        changes += [Change(gpu, "step", float(at[step.at]), step.before, step.after) for step in steps]
        if not steps and (change := _drifted(gpu, days, daily, len(series))) is not None:
            changes.append(change)
    return changes


def _lasting_noise(series: list[Floats]) -> float:
    """Noise of single runs as it affects levels: neighbours are correlated, since days differ and rooms warm up.

    If so, means over stretches of runs differ by more than those of independent runs would.
    """
    found = [noise_of(series)]
    for stretch in _STRETCHES:
        means = [values[: values.size // stretch * stretch].reshape(-1, stretch).mean(axis=1) for values in series]
        if sum(max(0, values.size - 1) for values in means) >= FEWEST_RUNS:
            found.append(noise_of(means) * math.sqrt(stretch))
    return max(found)


def _days_of(at: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Median by day; both sorted by time."""
    days = np.floor(at / DAY_S)
    first = np.concatenate(([0], np.flatnonzero(np.diff(days)) + 1, [days.size]))
    return days[first[:-1]] * DAY_S, np.array([np.median(values[a:b]) for a, b in itertools.pairwise(first)])


def _steps(values: Floats, series: int, noise: float) -> list[Step]:
    """Lasting changes of level: single bad runs are replaced by their neighbours, so they are not steps."""
    calm = values.copy()
    calm[1:-1] = np.median(np.stack([values[:-2], values[1:-1], values[2:]]), axis=0)
    calm[0], calm[-1] = np.median(values[:3]), np.median(values[-3:])
    return find_steps(calm, noise, penalty(values.size, series, max(2, values.size - 2), LEVEL), LEAST)


def _line_fits_better(at: Floats, values: Floats, steps: list[Step]) -> bool:
    """True if a slope over the full time leaves smaller residuals than levels: a drift that looks like steps."""
    bounds = [0, *(step.at for step in steps), values.size]
    levels = sum(
        float(((part - part.mean()) ** 2).sum()) for part in (values[a:b] for a, b in itertools.pairwise(bounds))
    )
    centred = at - at.mean()
    spread = float(centred @ centred)
    slope = float(centred @ values) / spread if spread > 0 else 0.0
    rest = values - values.mean() - slope * centred
    return float(rest @ rest) < levels


def _drifted(gpu: str, at: Floats, values: Floats, series: int) -> Change | None:
    from scipy.stats import theilslopes

    # A quick check first: most GPUs hardly move, and robust slopes for all cost a second in a large fleet.
    if at.size < FEWEST_DAYS or float(np.ptp(values)) < LEAST:
        return None
    if 2 / math.factorial(min(at.size, 20)) > LEVEL / series:  # so few days ascend by chance in some GPU
        return None
    span = float(np.ptp(at))
    found: Any = theilslopes(values, at, 1 - LEVEL / series)
    slope, lo, hi = float(found[0]), float(found[2]), float(found[3])
    if lo <= 0 <= hi or abs(slope) * span < LEAST:
        return None
    middle = float(np.median(values))
    return Change(gpu, "drift", float(at[0]), middle - slope * span / 2, middle + slope * span / 2)
