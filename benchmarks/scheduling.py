"""Objectives kept by the scheduler under simulated time, compared with simple policies and the clairvoyant bound.

Three tenants of one core (7.7, 31 and 108 ms back to back; objectives of three times the spaced cost), open-loop
Poisson arrivals, 25 s each: in S1 each demands 20 % of the device, in S2 one floods at 120 % beside two at 15 %, in S3
each demands 45 %. The seeds are not those on which settings were tuned. Everything but the time of a decision is
simulated.

Run: python benchmarks/scheduling.py [--seeds N] [--json]
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from cotenant.scheduling import (
    DeviceScheduler,
    Event,
    Fairness,
    Instruction,
    Policy,
    Settings,
)
from cotenant.scheduling.simulation import (
    SimulatedDevice,
    SimulatedResult,
    SpeedModes,
    SpeedTrace,
    simulate,
)
from serving import overloaded as three
from serving.baselines import EarliestDeadline, FirstCome, clairvoyant_bound

SECONDS = 25.0
SEEDS = range(1, 21)
FEWER_SEEDS = range(1, 11)
EQUAL = Settings(fairness=Fairness.EQUAL)
POLICIES: dict[str, tuple[Settings, Callable[[], Policy | None]]] = {
    "first come": (Settings(), FirstCome),
    "EDF + shed": (Settings(), lambda: EarliestDeadline(chunks=False)),
    "EDF + shed + chunks": (Settings(), lambda: EarliestDeadline(chunks=True)),
    "cotenant, shares": (Settings(), lambda: None),
    "cotenant, equal": (EQUAL, lambda: None),
}
CONDITIONS: dict[str, dict[str, Any]] = {
    "as above": {},
    "cost noise 25 %": {"noise": 0.25},
    "messages take 0.3 ms": {"delay_s": 0.0003},
    "speed jumps by 1.5 every 5 s": {"modes": SpeedModes((1.0, 1.5), 5.0)},
    "a neighbour takes 10 % in bursts of 0.1 s": {"bursts": (0.6, 0.1, 4.0)},
    "stalls of 20 ms, 11 % of the time": {"bursts": (0.16, 0.02, math.inf)},
}


class TimedScheduler(DeviceScheduler):
    """Records the time of each event that leads to a decision."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.took_us: list[float] = []

    def handle(self, event: Event) -> list[Instruction]:
        """As the scheduler, timed."""
        begin = time.perf_counter_ns()
        out = super().handle(event)
        self.took_us.append((time.perf_counter_ns() - begin) / 1e3)
        return out


def run(load: str, name: str, seed: int, **condition: Any) -> tuple[SimulatedResult, list[float]]:
    """One simulation."""
    settings, policy = POLICIES[name]
    delay_s = condition.pop("delay_s", 0.0)
    if "bursts" in condition:
        every_s, length_s, factor = condition.pop("bursts")
        condition["trace"] = SpeedTrace.bursts(every_s, length_s, factor, 2 * SECONDS, seed)
    scheduler = TimedScheduler(three.contracts(), settings, policy())
    device = SimulatedDevice(three.COSTS, seed=seed, **condition)
    return simulate(three.arrivals(load, seed, SECONDS), scheduler, device, delay_s=delay_s), scheduler.took_us


def summary(results: Sequence[SimulatedResult]) -> dict[str, Any]:
    """Means over seeds, with the spread of goodput and of the worst tenant."""
    parts = [result.attainment() for result in results]
    goodput = [result.goodput(three.WORTH_S, SECONDS) for result in results]
    worst = [min(part.values()) for part in parts]
    return {
        "attained": {name: statistics.mean(part[name] for part in parts) for name in three.COSTS},
        "goodput": statistics.mean(goodput),
        "goodput_sd": statistics.stdev(goodput),
        "worst": statistics.mean(worst),
        "worst_sd": statistics.stdev(worst),
        "busy": statistics.mean(result.busy_s / result.duration_s for result in results),
        "seeds": len(results),
    }


def measure(seeds: Sequence[int] = SEEDS, fewer: Sequence[int] = FEWER_SEEDS) -> dict[str, Any]:
    """All policies on all loads, the bound on the same arrivals, disturbed conditions, and the time of a decision."""
    took: list[float] = []
    policies: dict[str, dict[str, Any]] = {}
    for name in POLICIES:
        policies[name] = {}
        for load in three.LOADS:
            runs = [run(load, name, seed) for seed in seeds]
            policies[name][load] = summary([result for result, _ in runs])
            if name.startswith("cotenant"):
                took += [micros for _, times in runs for micros in times]
    conditions = {
        words: {
            load: summary([run(load, "cotenant, shares", seed, **condition)[0] for seed in fewer])
            for load in three.LOADS
        }
        for words, condition in CONDITIONS.items()
    }
    cuts = statistics.quantiles(took, n=100)
    return {
        "policies": policies,
        "bounds": {load: bounds(load, fewer) for load in three.LOADS},
        "conditions": conditions,
        "event_us": {"p50": cuts[49], "mean": statistics.mean(took), "p99": cuts[98], "n": len(took)},
    }


def bounds(load: str, seeds: Sequence[int]) -> dict[str, float]:
    """The mean clairvoyant bound, without batching and with relaxed batching."""
    found = {}
    for batching in (False, True):
        values = [
            clairvoyant_bound(
                three.arrivals(load, seed, SECONDS),
                three.contracts(),
                three.WORTH_S,
                duration_s=SECONDS,
                batching=batching,
            ).goodput
            for seed in seeds
        ]
        found["batching relaxed" if batching else "no batching"] = statistics.mean(values)
    return found


def table(result: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = ["| policy | S1 | S2 | S3 | S3 worst |", "|---|---|---|---|---|"]
    for group in ("policies", "conditions"):
        for name, loads in result[group].items():
            cells = [
                "/".join(f"{loads[load]['attained'][tenant]:.2f}" for tenant in three.COSTS)
                + f", {loads[load]['goodput']:.2f} ± {loads[load]['goodput_sd']:.2f}"
                for load in three.LOADS
            ]
            worst = f"{loads['S3']['worst']:.2f} ± {loads['S3']['worst_sd']:.2f}"
            lines.append(f"| {name} | {' | '.join(cells)} | {worst} |")
        lines.append("")
    lines += [f"bound {load}: {values}" for load, values in result["bounds"].items()]
    lines.append(f"time of an event with its decision (us): {result['event_us']}")
    busy = {name: round(loads["S3"]["busy"], 3) for name, loads in result["policies"].items()}
    lines.append(f"busy in S3: {busy}")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    measured = measure(range(1, asked.seeds + 1), range(1, min(asked.seeds, len(FEWER_SEEDS)) + 1))
    print(json.dumps(measured, indent=2) if asked.json else table(measured))
