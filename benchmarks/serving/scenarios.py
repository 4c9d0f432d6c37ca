"""The offered loads: S1 demands 20 % of the device each, S2 15 % beside a flood of 120 %, S3 45 % each."""

import random

LOADS = {
    "S1": {"bert": 0.20, "conv": 0.20, "gpt": 0.20},
    "S2": {"bert": 0.15, "conv": 1.20, "gpt": 0.15},
    "S3": {"bert": 0.45, "conv": 0.45, "gpt": 0.45},
}
TIMES = 3.0
"""Objective relative to the spaced cost."""


def arrivals(scenario: str, spaced_s: dict[str, float], *, seconds: float, seed: int) -> list[tuple[float, str]]:
    """Due times by tenant: Poisson, at rates that give the load at these costs."""
    numbers = random.Random(seed)  # noqa: S311
    plan = []
    for name, part in LOADS[scenario].items():
        rate = part / spaced_s[name]
        due = numbers.expovariate(rate)
        while due < seconds:
            plan.append((due, name))
            due += numbers.expovariate(rate)
    return sorted(plan)
