"""One line per GPU, with what placement needs."""

from dataclasses import dataclass

import numpy as np

from cotenant.analyse.estimates.intervals import student_t
from cotenant.analyse.variability.readings import Readings
from cotenant.analyse.variability.variation import WHISKER


@dataclass(frozen=True, slots=True)
class GpuProfile:
    """One GPU under one kind of work. None: not recorded."""

    gpu: str
    cabinet: str
    node: str
    runs: int
    time_ms: float
    """Median."""
    relative_time: float
    """Its median over the median of all runs: 1.05 takes 5 % longer. Placement sorts by this."""
    worst_relative_time: float
    """Its slowest run over the same."""
    lo: float | None
    """Interval of the relative time, from its runs (Student t)."""
    hi: float | None
    clock_mhz: float | None
    temperature_c: float | None
    power_w: float | None
    energy_j: float | None
    """Energy per request: power times time."""


def gpu_profiles(readings: Readings) -> tuple[GpuProfile, ...]:
    """Every GPU, in the order of the readings."""
    middle = float(np.median(readings.time_ms))
    clock, heat, power = (
        readings.medians(column) for column in (readings.clock_mhz, readings.temperature_c, readings.power_w)
    )
    found = []
    for number, (gpu, times) in enumerate(zip(readings.gpus, readings.of_gpu(readings.time_ms), strict=True)):
        typical = float(readings.gpu_times[number])
        reach = student_t(times.size - 1) * float(times.std(ddof=1)) / times.size**0.5 if times.size > 1 else None
        watts = _known(power[number])
        found.append(
            GpuProfile(
                gpu,
                readings.place_of(number, "cabinet"),
                readings.place_of(number, "node"),
                int(times.size),
                typical,
                typical / middle,
                float(times.max()) / middle,
                None if reach is None else (typical - reach) / middle,
                None if reach is None else (typical + reach) / middle,
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


def boxes(readings: Readings) -> tuple[Box, ...]:
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
