"""A plain loop as a sensor of the core's current speed.

On a virtual machine a neighbour on the sibling thread slows a core by up to a factor of two, for milliseconds to
seconds, which no counter of the guest shows. The time of a fixed computation does.
"""

import math
import time
from collections.abc import Callable, Sequence

import numpy as np

STEPS = 400
"""Iterations of a reading: some 30 microseconds."""
INTERRUPTED = 4
"""A reading this many times as long as the fastest was interrupted: a core's speeds are about a factor of two apart."""
WINDOW_S = 0.1
APART = 4
"""Windows compared with each other are about this many windows apart in a block."""


def reading_ns(now: Callable[[], int] = time.perf_counter_ns) -> int:
    """Time the loop once."""
    begin = now()
    value = 1
    for _ in range(STEPS):
        value = (value * 1_103_515_245 + 12_345) & 0x7FFF_FFFF
    return now() - begin


def mean_ns(readings: Sequence[int]) -> int:
    """Mean of the readings during which nothing else ran on the core.

    The mean, as of the requests: a core that is slow for a part of a window is neither fast nor slow.
    """
    undisturbed = [took for took in readings if took <= INTERRUPTED * min(readings)]
    return sum(undisturbed) // len(undisturbed)


def block_noise(seconds: float = 2.0, window_s: float = WINDOW_S) -> float | None:
    """Variation of the ratio of two windows of a block on this machine, as a standard deviation of its logarithm.

    Takes the given time, on a core. None for too few windows.
    """
    means = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        until = time.monotonic() + window_s
        total = count = 0
        while time.monotonic() < until:
            total += reading_ns()
            count += 1
        if count:
            means.append(math.log(total / count))
    if len(means) <= 2 * APART:
        return None
    series = np.array(means)
    return float(np.sqrt(np.mean((series[APART:] - series[:-APART]) ** 2)))


def expected_half_width(noise: float, blocks: int) -> float:
    """Expected half-width of a slowdown after this many blocks, if tenants vary as the loop does."""
    return 1.96 * noise / math.sqrt(blocks)
