"""A p99 of a hundred requests is a lottery, and mostly too low.

Requests of one and the same tenant, with a tail as services have it (log-normal). Its true p99 is known. Each line
draws that number of requests 2,000 times and takes their p99 as a script would.
"""

import math

import numpy as np

from cotenant.analyse.estimates.quantiles import needed_for
from cotenant.reporting.elements.markdown import table
from cotenant.text import percent

HEAD = ("requests", "90 % of all p99 lie between, ms", "true p99, ms", "too low in", "cotenant shows a p99")
MEDIAN_MS, SPREAD, REPEATS = 10.0, 0.6, 2000
NORMAL_P99 = 2.3263478740408408


def rows() -> list[tuple[str, ...]]:
    """By number of requests."""
    rng = np.random.default_rng(1)
    truth = MEDIAN_MS * math.exp(SPREAD * NORMAL_P99)
    return [_row(rng, n, truth) for n in (100, 299, 1000, 10_000)]


def _row(rng: np.random.Generator, n: int, truth: float) -> tuple[str, ...]:
    found = np.array([np.quantile(MEDIAN_MS * np.exp(SPREAD * rng.normal(size=n)), 0.99) for _ in range(REPEATS)])
    lo, hi = np.quantile(found, (0.05, 0.95))
    enough = n >= needed_for(0.99)
    return (
        f"{n:,}",
        f"{lo:.1f} and {hi:.1f}",
        f"{truth:.1f}",
        percent(np.mean(found < truth)),
        "yes, with its interval" if enough else f"no: {needed_for(0.99) - n} more requests",
    )


if __name__ == "__main__":
    print(table(HEAD, rows()))
