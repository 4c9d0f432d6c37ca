"""Requests are not replicates.

A tenant whose requests take 10 ms on average. Within a trial they scatter by 10 %; from trial to trial the level
moves by 2 % (another page layout, another neighbour, a warmer room). 1,000 simulated studies of 8 trials with 1,000
requests each. Once all 8,000 requests are taken for independent measurements, once the 8 trials are.
"""

import numpy as np

from cotenant.analyse.estimates.intervals import mean_interval
from cotenant.reporting.elements.markdown import table
from cotenant.tenancy.interval import Estimate
from cotenant.text import percent

HEAD = ("replicates", "n", "half-width of the 95 % interval, ms", "intervals that contain the truth")
TRUTH_MS, BETWEEN, WITHIN, TRIALS, REQUESTS, STUDIES = 10.0, 0.02, 0.10, 8, 1000, 1000


def rows() -> list[tuple[str, ...]]:
    """Both ways to count."""
    rng = np.random.default_rng(1)
    by_request, by_trial = [], []
    for _ in range(STUDIES):
        levels = TRUTH_MS * (1 + BETWEEN * rng.normal(size=(TRIALS, 1)))
        times = levels * (1 + WITHIN * rng.normal(size=(TRIALS, REQUESTS)))
        by_request.append(mean_interval(times.ravel()))
        by_trial.append(mean_interval(times.mean(axis=1)))
    return [_row("requests", TRIALS * REQUESTS, by_request), _row("trials", TRIALS, by_trial)]


def _row(name: str, n: int, found: list[Estimate]) -> tuple[str, ...]:
    half = np.mean([(one.hi - one.lo) / 2 for one in found])
    right = np.mean([one.lo <= TRUTH_MS <= one.hi for one in found])
    return name, f"{n:,}", f"{half:.3f}", percent(right)


if __name__ == "__main__":
    print(table(HEAD, rows()))
