"""Without an interval, noise has a winner.

Two ways to share that are equally good: both cost 1.05. Each is measured in a few blocks with 3 % noise, 2,000 times.
How often does one of them look better by 2 % and more, and how often does the interval of their ratio say that one
is?
"""

import numpy as np

from cotenant.analyse.estimates.intervals import ratio_interval
from cotenant.reporting.elements.markdown import table
from cotenant.text import percent

HEAD = ("blocks", "one looks 2 % better", "the interval says one is better", "half-width of the interval")
NOISE, GAP, REPEATS = 0.03, 0.02, 2000


def rows() -> list[tuple[str, ...]]:
    """By number of blocks."""
    rng = np.random.default_rng(1)
    return [_row(rng, blocks) for blocks in (3, 5, 10)]


def _row(rng: np.random.Generator, blocks: int) -> tuple[str, ...]:
    looks, says, widths = 0, 0, []
    for _ in range(REPEATS):
        found = ratio_interval(NOISE * rng.normal(size=blocks) - NOISE * rng.normal(size=blocks))
        assert found.lo is not None
        assert found.hi is not None
        looks += abs(np.log(found.est)) > np.log1p(GAP)
        says += not found.lo <= 1 <= found.hi
        widths.append((found.hi - found.lo) / 2)
    return str(blocks), percent(looks / REPEATS), percent(says / REPEATS), percent(np.median(widths))


if __name__ == "__main__":
    print(table(HEAD, rows()))
