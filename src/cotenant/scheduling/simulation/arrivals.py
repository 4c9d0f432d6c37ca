"""Arrivals as plain values, from a load, a trace or a test."""

import random
from collections.abc import Mapping
from typing import NamedTuple


class Arrival(NamedTuple):
    """A future request; fields as in ``events.Arrived``."""

    time: float
    tenant: str
    deadline: float | None = None
    scale: float = 1.0
    steps: int | None = None
    priority: int = 0


def poisson(rates: Mapping[str, float], duration_s: float, seed: int) -> list[Arrival]:
    """Independent Poisson arrivals, in requests per second by tenant, in order of time."""
    random_numbers = random.Random(seed)  # noqa: S311
    arrivals = []
    for tenant, rate in rates.items():
        time = random_numbers.expovariate(rate) if rate > 0 else duration_s
        while time < duration_s:
            arrivals.append(Arrival(time, tenant))
            time += random_numbers.expovariate(rate)
    arrivals.sort(key=lambda arrival: arrival.time)
    return arrivals
