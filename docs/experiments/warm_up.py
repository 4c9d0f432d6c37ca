"""Dropping the first ten requests does not make a window steady.

Four tenants whose steady request takes 10 ms, 2,000 requests each: one is flat, one needs about 300 requests to warm
up, one heats the device until it slows down, one never settles. The habit is to drop the first ten and to average the
rest.
"""

import numpy as np

from cotenant.analyse.estimates.warmup import classify
from cotenant.reporting.elements.markdown import table

HEAD = ("the tenant", "mean without the first 10, ms", "mean of the last quarter, ms", "what the window is called")
REQUESTS, STEADY_MS, NOISE = 2000, 10.0, 0.03


def rows() -> list[tuple[str, ...]]:
    """What each tenant's window comes to."""
    at = np.arange(REQUESTS)
    shapes = {
        "is flat": np.ones(REQUESTS),
        "warms up": 1 + 1.5 * np.exp(-at / 150),
        "slows down as it heats up": np.where(at < 1200, 1.0, 1.25),
        "goes to and fro": np.where(at // 250 % 2 == 0, 1.0, 1.3),
    }
    rng = np.random.default_rng(1)
    return [_row(name, STEADY_MS * shape * (1 + NOISE * rng.normal(size=REQUESTS))) for name, shape in shapes.items()]


def _row(name: str, times: np.ndarray) -> tuple[str, ...]:
    return name, f"{times[10:].mean():.2f}", f"{times[-REQUESTS // 4 :].mean():.2f}", classify(times)


if __name__ == "__main__":
    print(table(HEAD, rows()))
