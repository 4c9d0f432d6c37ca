"""Tails of simulated queues against exact ones: how often the true p99 is inside the interval, and how wide that is.

    python -m benchmarks.queues [SEEDS]

M/D/1 and M/M/1 queues at loads of 0.3 to 0.9. Prints one JSON document.
"""

import json
import sys
from dataclasses import dataclass
from decimal import Decimal, getcontext
from math import factorial, log

import numpy as np

from cotenant.scheduling.simulation.lines import Floats, requests_at, tail_of

LOADS = (0.3, 0.5, 0.7, 0.8, 0.9)
LEVEL = 0.99


@dataclass(frozen=True, slots=True)
class Coverage:
    """Over seeds: how often the interval holds, and its median half-width over the mean error of the estimate."""

    holds: float
    half_over_error: float
    error: float
    """Mean error over the true value."""


def coverage(load: float, *, constant: bool, seeds: int) -> Coverage:
    """One kind of queue with a mean service time of 1."""
    truth = constant_service(load) if constant else -log(1 - LEVEL) / (1 - load)
    count = requests_at(load)
    inside, halves, errors = [], [], []
    for seed in range(seeds):

        def due(number: int, seed: int = seed) -> Floats:
            return np.cumsum(np.random.default_rng([seed, number]).exponential(1 / load, count))

        def work(number: int, seed: int = seed) -> Floats:
            return np.ones(1) if constant else np.random.default_rng([seed, number, 1]).exponential(1.0, count)

        lower, estimate, upper = tail_of(due, work).quantile(LEVEL)
        inside.append(lower <= truth <= upper)
        halves.append((upper - lower) / 2)
        errors.append(abs(estimate - truth))
    return Coverage(float(np.mean(inside)), float(np.median(halves) / np.mean(errors)), float(np.mean(errors) / truth))


def constant_service(load: float, level: float = LEVEL) -> float:
    """The quantile of the time in an M/D/1 queue, by Erlang's formula for its waits."""
    getcontext().prec = 80
    rate = Decimal(load)

    def within(wait: Decimal) -> Decimal:
        terms = (
            (rate * (number - wait)) ** number / factorial(number) * (-rate * (number - wait)).exp()
            for number in range(int(wait) + 1)
        )
        return (1 - rate) * sum(terms, Decimal(0))

    low, high = Decimal(0), Decimal(200)
    while high - low > Decimal("1e-6"):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle) < Decimal(level) else (low, middle)
    return 1 + float(high)


def main(seeds: int = 200) -> None:
    """Every queue at every load."""
    rows = [
        {"queue": "M/D/1" if constant else "M/M/1", "load": load, "holds": round(one.holds, 3),
         "half_width_over_error": round(one.half_over_error, 2), "mean_error": round(one.error, 4)}
        for constant in (True, False)
        for load in LOADS
        for one in (coverage(load, constant=constant, seeds=seeds),)
    ]  # fmt: skip
    print(json.dumps({"seeds": seeds, "queues": rows}, indent=2))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
