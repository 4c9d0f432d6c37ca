"""Quality and speed of plans: synthetic tenants that interfere, on devices of two kinds.

A tenant needs a share of a device that grows with its neighbours' memory pressure: share x (1 + feels x sum of the
neighbours' pressure). A group fits if its shares and its memory do. The second kind of device has half the size and
half the price.
"""

import json
import sys
import time
from typing import Any

import numpy as np

from cotenant.planning.solver.generation import generate, start
from cotenant.planning.solver.problem import NOBODY, Ints, JudgedGroups, Problem, WayToUse, cost_of
from cotenant.planning.solver.solve import solve

SIZES = {"large": (1.0, 80.0, 1.0), "small": (0.5, 40.0, 0.5)}
"""Compute, memory (GiB), price of each kind."""


def synthetic(tenants: int, *, seed: int, large: int, small: int) -> Problem:
    """An instance: shares 5 to 45 % of the large device, memory 2 to 30 GiB, pressure up to 1, felt up to 0.6."""
    random = np.random.default_rng(seed)
    share = np.append(random.uniform(0.05, 0.45, tenants), 0.0)
    memory = np.append(random.uniform(2.0, 30.0, tenants), 0.0)
    pressure = np.append(random.uniform(0.0, 1.0, tenants), 0.0)
    feels = np.append(random.uniform(0.0, 0.6, tenants), 0.0)
    options = tuple(WayToUse(kind, price) for kind, (_, _, price) in enumerate(SIZES.values()))

    def judge(option: int, groups: Ints) -> JudgedGroups:
        compute, room, price = list(SIZES.values())[option]
        there = groups != NOBODY
        press = np.where(there, pressure[groups], 0.0)
        others = press.sum(axis=1, keepdims=True) - press
        busy = (share[groups] * (1 + feels[groups] * others)).sum(axis=1) / compute
        fits = (busy <= 1) & (memory[groups].sum(axis=1) <= room)
        return JudgedGroups(fits, busy, np.full(len(groups), price))

    return Problem(tenants, options, (large, small), judge)


def measure() -> dict[str, Any]:
    """Gaps and times."""
    hundred = []
    for seed in range(5):
        problem = synthetic(100, seed=seed, large=100, small=100)
        begin = time.perf_counter()
        begun = start(problem)
        at_once = time.perf_counter() - begin
        solved = generate(problem, begun, clock=time.monotonic, seconds=28.0)
        hundred.append(
            {
                "seed": seed,
                "best_fit_decreasing": cost_of(begun.columns),
                "cost": solved.cost,
                "bound": solved.bound,
                "gap": solved.gap,
                "at_once_s": at_once,
                "seconds": time.perf_counter() - begin,
            }
        )
        print(hundred[-1], file=sys.stderr)
    problem = synthetic(1000, seed=0, large=300, small=100)
    begin = time.perf_counter()
    begun = start(problem)
    at_once = time.perf_counter() - begin
    solved = solve(problem, clock=time.monotonic, seconds=160.0)
    thousand = {
        "best_fit_decreasing": cost_of(begun.columns),
        "without_place_at_once": len(begun.left_out),
        "without_place": len(solved.left_out),
        "cost": solved.cost,
        "bound": solved.bound,
        "below_greedy": 1 - solved.cost / cost_of(begun.columns),
        "at_once_s": at_once,
        "seconds": time.perf_counter() - begin,
    }
    return {"hundred": hundred, "thousand": thousand}


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
