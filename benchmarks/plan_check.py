"""Accuracy of `plan --check`: random tenants at 0.8 to 1.2 of the rate at which they just keep p99.

The border is found by bisection, the truth by many more arrivals than the check uses. All in simulated time.
"""

import json
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from cotenant.devices.simulated.simulated_gpu import open_simulated
from cotenant.planning.check import SEEDS, Attained
from cotenant.planning.check_simulated import simulated_device
from cotenant.planning.mixes.tenants import planned
from cotenant.planning.predictors.profiles import Simulation
from cotenant.tenancy.plan_document import PlanDevice
from cotenant.tenancy.tenant_entry import TenantEntry

INSTANCES = 40
WORKLOADS = ("bert-base-mini", "resnet18-mini", "gpt2-mini", "vit-b-16-mini")
KIND = "sim:a100-sxm4-80gb"
TRUTH = range(1000, 1032)
QUICK = range(500, 502)


def seat(random: np.random.Generator) -> dict[str, Any]:
    """A tenant with a limit of 3 to 8 times its service time."""
    workload = str(random.choice(WORKLOADS))
    return {
        "tenant": "t",
        "rate_rps": 1.0,
        "at_once": int(random.choice([1, 2, 4, 8])),
        "runs": {"workload": workload},
        "cv": float(random.choice([1.0, 1.5, 2.0])),
        "expected": {"p99": {"limit_ms": float(random.uniform(3, 8)) * alone_ms(workload)}},
    }


def check(one: dict[str, Any], seeds: Iterable[int] = SEEDS) -> Attained:
    """The check of a device with this seat."""
    device = PlanDevice.model_validate({"name": "d", "kind": KIND, "sharing": "mps", "tenants": {"t": one}})
    (found,) = simulated_device(device, seeds, risk=0.1)
    return found


@cache
def alone_ms(workload: str) -> float:
    """Service time of one request alone."""
    entry = TenantEntry.model_validate({"workload": workload, "rate": "1/s"})
    simulation = Simulation(planned({"t": entry}), {"t": entry}, {KIND: open_simulated(KIND)}, risk=0.1)
    return simulation.profile(KIND, 0, 1).alone_ms


def border(one: dict[str, Any]) -> float:
    """The rate at which 99 % are just kept."""
    low, high = 10.0, 5000.0
    for _ in range(9):
        middle = float(np.sqrt(low * high))
        kept = check({**one, "rate_rps": middle}, QUICK).attained.est >= 0.99
        low, high = (middle, high) if kept else (low, middle)
    return low


def measure() -> dict[str, Any]:
    """The check's answers and the truth."""
    random = np.random.default_rng(5)
    said: dict[str, list[bool]] = {"kept": [], "missed": [], "can't tell": []}
    for _ in range(INSTANCES):
        one = seat(random)
        one["rate_rps"] = border(one) * float(random.uniform(0.8, 1.2))
        checked = check(one)
        truth = check(one, TRUTH).attained.est >= 0.99
        said[checked.verdict].append(truth)
    return {
        "instances": INSTANCES,
        "kept": len(said["kept"]),
        "kept_truly": sum(said["kept"]),
        "missed": len(said["missed"]),
        "missed_truly": sum(not one for one in said["missed"]),
        "undecided": len(said["can't tell"]),
    }


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
