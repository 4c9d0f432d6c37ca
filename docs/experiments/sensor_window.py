"""A sensor that looks away reads what it happens to see.

A device draws 300 W for 25 ms and 100 W for the next 75 ms, again and again: 150 W on average. Sensors report once in
100 ms. One averages all of it; one averages only the last 25 ms before it reports, as some power sensors of GPUs do.
What the second one reads depends on the moment at which the two rhythms meet, and no number of samples changes that.
"""

import numpy as np

from cotenant.reporting.elements.markdown import table

HEAD = ("the sensor averages over", "lowest reading, W", "highest reading, W", "truth, W")
PERIOD_MS, BUSY_MS, BUSY_W, IDLE_W = 100, 25, 300.0, 100.0


def rows() -> list[tuple[str, ...]]:
    """Mean readings over all phases at which sensor and load may meet."""
    power = np.where(np.arange(20 * PERIOD_MS) % PERIOD_MS < BUSY_MS, BUSY_W, IDLE_W)
    return [_row(power, window) for window in (100, 50, 25)]


def _row(power: np.ndarray, window: int) -> tuple[str, ...]:
    summed = np.concatenate(([0.0], np.cumsum(power)))
    readings = []
    for phase in range(PERIOD_MS):
        ends = np.arange(PERIOD_MS + phase, power.size, PERIOD_MS)
        readings.append(np.mean((summed[ends] - summed[ends - window]) / window))
    return f"{window} of 100 ms", f"{min(readings):.0f}", f"{max(readings):.0f}", f"{power.mean():.0f}"


if __name__ == "__main__":
    print(table(HEAD, rows()))
