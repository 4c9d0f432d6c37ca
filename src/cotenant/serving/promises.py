"""What was promised to each tenant, judged while serving: requests in time by objective, in blocks of time."""

import math
from collections import Counter
from typing import Any

import numpy as np

from cotenant.analyse.estimates import Stretches, needed_for
from cotenant.analyse.judged_promises import NOT_COUNTED, JudgedPromise, judge
from cotenant.serving.measures import SLOT_S, Lately, bin_of, quantile_ms
from cotenant.serving.service import Service
from cotenant.serving.tickets import NOT_OURS, RequestOutcome
from cotenant.tenancy.interval import Interval
from cotenant.tenancy.objective import Objective

MOST_BLOCKS = 120
"""Blocks of an objective; when there are more, neighbours are merged. Memory stays bounded however long it serves."""


class BlockCounts:
    """Requests and those in time since the start, by blocks of equal time: neighbours in time aren't independent."""

    def __init__(self) -> None:
        self._width_s = SLOT_S
        self._blocks: dict[int, tuple[int, int]] = {}

    def add(self, at_s: float, *, met: bool) -> None:
        """Count a request that ended at this time of the monotonic clock."""
        number = int(at_s / self._width_s)
        due, kept = self._blocks.get(number, (0, 0))
        self._blocks[number] = due + 1, kept + met
        while len(self._blocks) > MOST_BLOCKS:
            self._merge()

    def _merge(self) -> None:
        self._width_s *= 2
        merged: dict[int, tuple[int, int]] = {}
        for number, (due, kept) in self._blocks.items():
            before = merged.get(number // 2, (0, 0))
            merged[number // 2] = before[0] + due, before[1] + kept
        self._blocks = merged

    def stretches(self) -> list[Stretches]:
        """Each block as a replicate."""
        return [Stretches(np.array([due]), np.array([kept])) for due, kept in self._blocks.values()]


class _Counted:
    """One objective of a tenant."""

    def __init__(self) -> None:
        self.blocks = BlockCounts()
        self.times: Counter[int] = Counter()
        self.served = 0
        self.lately = Lately()
        self.uncounted = 0
        """Requests whose tokens aren't known."""


class PromiseCounts:
    """The objectives of a service's tenants; a reload with another objective begins a count of its own."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._counted: dict[tuple[str, Objective], _Counted] = {}
        service.measures.listen(self._hear)

    def _hear(self, outcomes: list[RequestOutcome]) -> None:
        file = self._service.file
        for outcome in outcomes:
            entry = None if file is None else file.tenants.get(outcome.tenant)
            if entry is None or outcome.why in NOT_OURS:
                continue
            for objective in entry.slo:
                self._count(outcome, objective)

    def _count(self, outcome: RequestOutcome, objective: Objective) -> None:
        key = outcome.tenant, objective
        counted = self._counted.get(key)
        if counted is None:
            counted = self._counted[key] = _Counted()
        took_s = _measured_s(outcome, objective) if outcome.why is None else None
        if outcome.why is None and took_s is None:
            counted.uncounted += 1
            return
        met = took_s is not None and 1e3 * took_s <= objective.limit_ms
        counted.blocks.add(outcome.done, met=met)
        counted.lately.add(outcome.done, took_s or 0.0, 0.0, met=met, why=outcome.why)
        if took_s is not None:
            counted.served += 1
            counted.times[bin_of(took_s)] += 1

    def judged(self) -> tuple[JudgedPromise, ...]:
        """Every objective, by what was counted so far."""
        self._service.measures.settle()
        file = self._service.file
        rows = []
        for name, entry in () if file is None else file.tenants.items():
            for objective in entry.slo:
                counted = self._counted.get((name, objective), _Counted())
                rows.append(
                    judge(
                        name,
                        objective,
                        counted.blocks.stretches(),
                        quantile=_quantile(counted, objective),
                        promised=entry.promised.get(objective.label),
                        reason=NOT_COUNTED if counted.uncounted else None,
                    )
                )
        return tuple(rows)

    def to_json(self, now_s: float) -> list[dict[str, Any]]:
        """For `/status`: each promise, and its quantile in each of the last minutes."""
        return [{**row.to_json(), "minutes_ms": self._lately(row).curve(now_s, row.quantile)} for row in self.judged()]

    def _lately(self, row: JudgedPromise) -> Lately:
        for (name, objective), counted in self._counted.items():
            if (name, objective.label, objective.limit_ms) == (row.tenant, row.objective, row.limit_ms):
                return counted.lately
        return Lately()


def _measured_s(outcome: RequestOutcome, objective: Objective) -> float | None:
    """What the objective limits; None if it isn't known."""
    if objective.metric == "latency":
        return outcome.done - outcome.arrived
    if outcome.first is None or not outcome.tokens:
        return None
    if objective.metric == "ttft":
        return outcome.first - outcome.arrived
    return (outcome.done - outcome.first) / (outcome.tokens - 1) if outcome.tokens > 1 else 0.0


def _quantile(counted: _Counted, objective: Objective) -> Interval | None:
    """Of the served requests, to 2 %; None with too few."""
    if counted.served < needed_for(objective.quantile):
        return None
    value = quantile_ms(counted.times, objective.quantile)
    return Interval(value) if math.isfinite(value) else None
