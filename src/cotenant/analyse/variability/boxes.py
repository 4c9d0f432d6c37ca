"""Each GPU's runs as a box: the data of a box plot, without the runs."""

from dataclasses import dataclass

import numpy as np

from cotenant.analyse.variability.readings import Readings
from cotenant.analyse.variability.variation import WHISKER


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
