"""Slowdown: a tenant's time beside neighbours over its time alone, both from the same block.

Time is the mean latency (done - intended) of the requests of a trial. Under a closed load that is the inverse of the
rate; under an open one it holds the queueing too, which is what a user feels.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from cotenant.analyse.estimates.estimate import Estimate
from cotenant.analyse.estimates.intervals import ratio_interval
from cotenant.analyse.sharing.cells import Cell, counts, usable
from cotenant.tenancy.records import TenantObservation

Clock = Callable[[TenantObservation], float | None]


def end_to_end_ns(seen: TenantObservation) -> float | None:
    """What a user feels."""
    return seen.mean_latency_ns


def device_ns(seen: TenantObservation) -> float | None:
    """What the device did."""
    return seen.mean_device_ns


class Solos:
    """Times of tenants alone, found again by block."""

    def __init__(self, clock: Clock = end_to_end_ns) -> None:
        self._clock = clock
        self._logs: dict[tuple[str, str, str, str, int, str, str | None], list[float]] = {}

    def add(self, seen: TenantObservation) -> None:
        """Remember it if it is a usable solo observation."""
        time = _log_time(seen, self._clock)
        if seen.solo and time is not None:
            self._logs.setdefault(_place(seen), []).append(time)

    def log_slowdown(self, seen: TenantObservation) -> float | None:
        """Natural logarithm of its slowdown; None if it or its solo partner in the block is missing or unusable."""
        alone = self._logs.get(_place(seen))
        time = _log_time(seen, self._clock)
        return None if alone is None or time is None else time - sum(alone) / len(alone)


def _place(seen: TenantObservation) -> tuple[str, str, str, str, int, str, str | None]:
    """What a shared observation and its solo partner have in common."""
    return seen.run, seen.device, seen.settings, seen.load, seen.block, seen.of, seen.member


def _log_time(seen: TenantObservation, clock: Clock) -> float | None:
    time = clock(seen)
    if not usable(seen) or seen.n == 0 or time is None or not 0 < time < math.inf:
        return None
    return math.log(time)


def log_slowdowns(observations: Sequence[TenantObservation], solos: Solos) -> dict[int, float]:
    """Of one tenant of one cell, by block; blocks without a usable pair are left out."""
    found: dict[int, list[float]] = {}
    for seen in observations:
        value = solos.log_slowdown(seen)
        if value is not None:
            found.setdefault(seen.block, []).append(value)
    return {block: sum(values) / len(values) for block, values in sorted(found.items())}


class CurrentSlowdown(NamedTuple):
    """What is known so far of one tenant beside its neighbours."""

    mix: str
    sharing: str
    load: str
    tenant: str
    estimate: Estimate


def current_slowdowns(observations: Iterable[TenantObservation]) -> list[CurrentSlowdown]:
    """Slowdowns of all tenants that have one so far, in order of their cells; needs means only, no raw latencies."""
    solos = Solos()
    shared: dict[tuple[Cell, str], list[TenantObservation]] = {}
    for seen in filter(counts, observations):
        if seen.solo:
            solos.add(seen)
        else:
            shared.setdefault((Cell.of(seen), seen.role), []).append(seen)
    current = []
    for (cell, tenant), group in sorted(shared.items(), key=lambda item: item[0]):
        logs = log_slowdowns(group, solos)
        if logs:
            current.append(
                CurrentSlowdown(cell.mix, cell.sharing, cell.load, tenant, ratio_interval(list(logs.values())))
            )
    return current
