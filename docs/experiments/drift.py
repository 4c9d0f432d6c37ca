"""A baseline from the start of the study turns drift into slowdown.

A pair that costs each tenant exactly 1.30, on a machine that becomes 5 % slower while the study runs. 1,000 simulated
studies of 8 trials alone and 8 as a pair, each trial with 1 % noise. Once all trials alone come first; once every
block has one of each, in random order.
"""

import math

import numpy as np

from cotenant.analyse.estimates.intervals import ratio_interval
from cotenant.reporting.elements.markdown import table
from cotenant.text import percent

HEAD = ("solo is measured", "mean estimate", "truth", "95 % intervals that contain the truth")
TRUTH, DRIFT, NOISE, BLOCKS, STUDIES = 1.30, 0.05, 0.01, 8, 1000


def rows() -> list[tuple[str, ...]]:
    """Both orders."""
    return [_row("first, once for all", interleaved=False), _row("within each block", interleaved=True)]


def _row(name: str, *, interleaved: bool) -> tuple[str, ...]:
    rng = np.random.default_rng(1)
    found = [_study(rng, interleaved=interleaved) for _ in range(STUDIES)]
    right = sum(lo <= TRUTH <= hi for _, lo, hi in found)
    return name, f"{np.mean([est for est, *_ in found]):.3f}", f"{TRUTH:.3f}", percent(right / STUDIES)


def _study(rng: np.random.Generator, *, interleaved: bool) -> tuple[float, float, float]:
    place = np.linspace(0, 1, 2 * BLOCKS)
    speed = np.log1p(DRIFT * place) + NOISE * rng.normal(size=place.size)
    if interleaved:
        pairs = speed.reshape(BLOCKS, 2)
        swapped = rng.random(BLOCKS) < 0.5
        solo = np.where(swapped, pairs[:, 1], pairs[:, 0])
        shared = np.where(swapped, pairs[:, 0], pairs[:, 1])
    else:
        solo, shared = speed[:BLOCKS], speed[BLOCKS:]
    estimate = ratio_interval(math.log(TRUTH) + shared - solo)
    assert estimate.lo is not None
    assert estimate.hi is not None
    return estimate.est, estimate.lo, estimate.hi


if __name__ == "__main__":
    print(table(HEAD, rows()))
