"""Cost of slow GPUs to a synchronous job, which runs at the pace of the slowest of its k GPUs."""

import math
from collections.abc import Sequence

import numpy as np

from cotenant.analyse.estimates.intervals import Floats
from cotenant.analyse.estimates.missing import Missing, Number
from cotenant.analyse.variability.resampling import draws_of, estimated

SIZES = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def straggler_cost(gpu_times: Floats, sizes: Sequence[int] = SIZES) -> dict[int, Number]:
    """Expected time of the slowest of k random GPUs over the median GPU, by k; sizes beyond the fleet are left out.

    Exact for this fleet: every choice of k of its GPUs is equally likely.
    """
    times = np.sort(np.asarray(gpu_times, dtype=np.float64))
    n = times.size
    if n < 2:
        return {2: Missing("it needs at least two GPUs", n)}
    drawn = np.sort(times[draws_of(n)], axis=1)
    middles = np.median(drawn, axis=1)
    found: dict[int, Number] = {}
    for k in sizes:
        if k > n:
            break
        chances = _chances(n, k)
        resampled = np.asarray(drawn @ chances / middles)
        found[k] = estimated(float(times @ chances / np.median(times)), resampled.view, n)
    return found


def _chances(n: int, k: int) -> Floats:
    """Probability that the i-th fastest of n is the slowest of k: C(i - 1, k - 1) / C(n, k), by logarithms."""
    chances = np.zeros(n)
    whole = _log_choose(n, k)
    for place in range(k, n + 1):
        chances[place - 1] = math.exp(_log_choose(place - 1, k - 1) - whole)
    return chances


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
