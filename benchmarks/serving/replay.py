"""The simulator fed with a run's own costs: those the server measured, corrected by the chunks it ran."""

import math
import statistics
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Any

from cotenant.scheduling import ChunkCost, TenantCosts
from cotenant.scheduling.simulation import SimulatedDevice, SpeedTrace
from cotenant.serving.workers.wire import costs_in

WINDOW = 7
"""Chunks whose median is the core's speed at that time."""
LEAST = 5
"""Fewer chunks of a kind don't correct its cost."""
Chunks = list[tuple[float, float, str, int, float]]


def empty_s(row: dict[str, Any]) -> float:
    """Time of a run in which nothing waited: from the end of a chunk without a successor to the next one."""
    return sum(later[0] - earlier[1] for earlier, later in pairwise(row["chunks"]) if later[-1] < 0)


def planned_costs(row: dict[str, Any]) -> dict[str, TenantCosts]:
    """What the server measured at its start, and the scheduler plans with at first."""
    return {name: costs_in(data) for name, data in row["costs"].items()}


def own_costs(row: dict[str, Any]) -> dict[str, TenantCosts]:
    """The costs during a run: the measured ones, corrected by the median time of each kind of chunk."""
    close, spaced = _factors([tuple(one) for one in row["chunks"]])
    return {name: _corrected(cost, name, close, spaced) for name, cost in planned_costs(row).items()}


def replayed_device(row: dict[str, Any]) -> SimulatedDevice:
    """A device with the costs, the noise and the changing speed of the core during a run."""
    chunks: Chunks = [tuple(one) for one in row["chunks"]]
    if not chunks:
        return SimulatedDevice(planned_costs(row), seed=row["seed"])
    close, _ = _factors(chunks)
    followed = [
        (ended, math.log(ratio / close.get((name, stage), 1.0))) for _, ended, name, stage, ratio in chunks if ratio > 0
    ]
    begin = chunks[0][0]
    times, levels = [], []
    for place, (ended, _) in enumerate(followed):
        near = followed[max(0, place - WINDOW // 2) : place + WINDOW // 2 + 1]
        times.append(ended - begin)
        levels.append(statistics.median(level for _, level in near))
    rest = [level - smooth for (_, level), smooth in zip(followed, levels, strict=True)]
    noise = statistics.pstdev(max(-0.5, min(0.5, one)) for one in rest)
    trace = SpeedTrace(times, [math.exp(level) for level in levels])
    return SimulatedDevice(own_costs(row), noise=noise, trace=trace, seed=row["seed"])


def _factors(chunks: Chunks) -> tuple[dict[tuple[str, int], float], dict[tuple[str, int], float]]:
    """Median time relative to the measured cost of each kind of chunk: back to back, and after a gap."""
    close: dict[tuple[str, int], list[float]] = defaultdict(list)
    spaced: dict[tuple[str, int], list[float]] = defaultdict(list)
    for _, _, name, stage, ratio in chunks:
        (close if ratio > 0 else spaced)[name, stage].append(abs(ratio))
    return tuple(  # type: ignore[return-value]
        {kind: statistics.median(seen) for kind, seen in rows.items() if len(seen) >= LEAST} for rows in (close, spaced)
    )


def _corrected(
    costs: TenantCosts, name: str, close: dict[tuple[str, int], float], spaced: dict[tuple[str, int], float]
) -> TenantCosts:
    def one(cost: ChunkCost, stage: int) -> ChunkCost:
        factor = close.get((name, stage), 1.0)
        after_gap = cost.p50_s * spaced[name, stage] if (name, stage) in spaced else cost.spaced_s * factor
        return ChunkCost(cost.p50_s * factor, cost.p90_s * factor, after_gap)

    chunks = tuple(one(cost, stage) for stage, cost in enumerate(costs.chunks))
    return replace(costs, chunks=chunks, step=one(costs.step, -1) if costs.step else None)
