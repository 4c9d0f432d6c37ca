"""How slow this machine is at the moment, as a factor for deadlines: a busy machine gets more time, not a failure."""

import functools
import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_USUAL_S = 0.05
"""Wall time of the piece of work below on an idle core of the kind this suite was written on."""
_MOST = 4.0


def _work() -> float:
    begin = time.perf_counter()
    total = 0
    for number in range(1_000_000):
        total += number & 7
    return time.perf_counter() - begin


def slowness(seconds: float, *, load: float, cores: int) -> float:
    """The factor for a measured piece of work on a machine with that many runnable processes; never below 1."""
    crowded = (load + 1) / cores
    return min(max(1.0, seconds / _USUAL_S, crowded), _MOST)


@functools.cache
def _speed_s() -> float:
    """The median of five pieces of work, once in a process."""
    return sorted(_work() for _ in range(5))[2]


def measured() -> float:
    """The factor of this machine: by the work done at the start, or by what its load average says now."""
    return slowness(_speed_s(), load=os.getloadavg()[0], cores=os.cpu_count() or 1)


def seconds(usual: float) -> float:
    """How long to wait for what is over by then on an idle machine."""
    return usual * measured()


def until(condition: Callable[[], T], usual: float = 60.0) -> T:
    """The first true value of a condition that others make true."""
    end = time.monotonic() + seconds(usual)
    while not (value := condition()):
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)
    return value
