"""Tails of simulated queues against exact ones: how often the true p99 is inside the interval, and how wide that is.

    python -m benchmarks.queues [SEEDS]

Poisson arrivals at loads of 0.3 to 0.9, and service times from constant to very uneven. Prints one JSON document.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import erfc

from cotenant.scheduling.simulation.lines import Floats, requests_at, tail_of

LOADS = (0.3, 0.5, 0.7, 0.8, 0.9)
LEVEL = 0.99
_STEP, _UNTIL = 0.01, 4000.0
"""Grid of exact distributions, in mean service times."""


@dataclass(frozen=True, slots=True)
class Service:
    """Service times with a mean of 1."""

    longer: Callable[[Floats], Floats]
    """Probability of a longer time."""
    drawn: Callable[[np.random.Generator, int], Floats]


def _values(*values: float, chances: tuple[float, ...] = (1.0,)) -> Service:
    return Service(
        lambda time: sum((chance * (time < value) for value, chance in zip(values, chances, strict=True)), np.zeros(1)),
        lambda random, count: random.choice(values, count, p=chances),
    )


def _exponentials(*means: float, chances: tuple[float, ...] = (1.0,)) -> Service:
    parts = list(zip(means, chances, strict=True))
    return Service(
        lambda time: sum((chance * np.exp(-np.maximum(time, 0.0) / mean) for mean, chance in parts), np.zeros(1)),
        lambda random, count: random.exponential(random.choice(means, count, p=chances)),
    )


def _lognormal(cv: float) -> Service:
    spread = np.sqrt(np.log(1 + cv**2))
    return Service(
        lambda time: erfc((np.log(np.maximum(time, 1e-12)) + spread**2 / 2) / (spread * np.sqrt(2))) / 2,
        lambda random, count: random.lognormal(-(spread**2) / 2, spread, count),
    )


QUEUES = {
    "M/D/1": _values(1.0),
    "M/M/1": _exponentials(1.0),
    "M/G/1, lognormal, cv 0.5": _lognormal(0.5),
    "M/G/1, lognormal, cv 1.5": _lognormal(1.5),
    "M/G/1, 0.5 or 5.5": _values(0.5, 5.5, chances=(0.9, 0.1)),
    "M/G/1, two exponentials, cv 2": _exponentials(1 - 6**-0.5, 1 + 9 * 6**-0.5, chances=(0.9, 0.1)),
}
"""By name; every tenth request of the last two is one of the long ones."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Over seeds: how often the interval holds, and its median half-width over the mean error of the estimate."""

    holds: float
    half_over_error: float
    error: float
    """Mean error over the true value."""


def coverage(queue: str, load: float, *, seeds: int) -> Coverage:
    """A queue with a mean service time of 1."""
    service, truth = QUEUES[queue], exact_quantile(queue, load)
    count = requests_at(load)
    inside, halves, errors = [], [], []
    for seed in range(seeds):

        def due(number: int, seed: int = seed) -> Floats:
            return np.cumsum(np.random.default_rng([seed, number]).exponential(1 / load, count))

        def work(number: int, seed: int = seed) -> Floats:
            return service.drawn(np.random.default_rng([seed, number, 1]), count)

        lower, estimate, upper = tail_of(due, work).quantile(LEVEL)
        inside.append(lower <= truth <= upper)
        halves.append((upper - lower) / 2)
        errors.append(abs(estimate - truth))
    return Coverage(float(np.mean(inside)), float(np.median(halves) / np.mean(errors)), float(np.mean(errors) / truth))


def exact_quantile(queue: str, load: float, level: float = LEVEL) -> float:
    """The quantile of the time in a queue, by the formula of Pollaczek and Khinchine.

    A wait is the sum of a geometric number of service times' remainders; the transform of that sum is inverted on a
    grid.
    """
    longer = QUEUES[queue].longer
    times = np.arange(0.0, _UNTIL, _STEP)
    half = _STEP / 2
    remainder = _STEP * (longer(times - half / 2) + longer(times + half / 2)) / 2
    remainder[0] = half
    remainder /= remainder.sum()
    service = longer(times - half) - longer(times + half)
    transform = np.fft.rfft(service) * (1 - load) / (1 - load * np.fft.rfft(remainder))
    within = np.cumsum(np.fft.irfft(transform, times.size))
    return float(np.interp(level, within, times + half))


def main(seeds: int = 200) -> None:
    """Every queue at every load."""
    rows = [
        {"queue": queue, "load": load, "holds": round(figures.holds, 3),
         "half_width_over_error": round(figures.half_over_error, 2), "mean_error": round(figures.error, 4)}
        for queue in QUEUES
        for load in LOADS
        for figures in (coverage(queue, load, seeds=seeds),)
    ]  # fmt: skip
    print(json.dumps({"seeds": seeds, "queues": rows}, indent=2))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
