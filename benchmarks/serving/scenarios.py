"""What is offered: S1 asks for 20 % of the device each, S2 for 15 % beside a flood of 120 %, S3 for 45 % each."""

import random

LOADS = {
    "S1": {"bert": 0.20, "conv": 0.20, "gpt": 0.20},
    "S2": {"bert": 0.15, "conv": 1.20, "gpt": 0.15},
    "S3": {"bert": 0.45, "conv": 0.45, "gpt": 0.45},
}
TIMES = 3.0
"""An objective is this many times the spaced cost."""


def arrivals(scenario: str, spaced_s: dict[str, float], *, seconds: float, seed: int) -> list[tuple[float, str]]:
    """When which tenant's request is due to be sent: Poisson, at rates that make the load at these costs."""
    numbers = random.Random(seed)  # noqa: S311
    plan = []
    for name, part in LOADS[scenario].items():
        rate = part / spaced_s[name]
        due = numbers.expovariate(rate)
        while due < seconds:
            plan.append((due, name))
            due += numbers.expovariate(rate)
    return sorted(plan)
