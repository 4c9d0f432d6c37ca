"""Slowdown: a tenant's time beside neighbours over its time alone, both from the same block.

Time is the mean latency (done - intended) of the requests of a trial. Under a closed load that is the inverse of the
rate; under an open load it includes queueing, as users experience it.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from sys import intern
from typing import NamedTuple, Protocol

import numpy as np

from cotenant.analyse.estimates.autocorrelation import Common, common_correlation
from cotenant.analyse.estimates.intervals import ratio_interval
from cotenant.analyse.estimates.robust import adjusted
from cotenant.analyse.sharing.cells import Cell, counts, usable
from cotenant.tenancy.interval import Estimate
from cotenant.tenancy.records import TenantObservation

Clock = Callable[[TenantObservation], float | None]


def end_to_end_ns(seen: TenantObservation) -> float | None:
    """Latency as users experience it."""
    return seen.mean_latency_ns


def device_ns(seen: TenantObservation) -> float | None:
    """Time on the device."""
    return seen.mean_device_ns


def canary_us(seen: TenantObservation) -> float | None:
    """Time of the canary: the speed of its core."""
    return seen.canary_us


class SoloKey(NamedTuple):
    """What a shared observation and its solo partner have in common."""

    run: str
    device: str
    settings: str
    load: str
    block: int
    of: str
    member: str | None


class Solos:
    """Times of tenants alone, by block."""

    def __init__(self, clock: Clock = end_to_end_ns) -> None:
        self._clock = clock
        self._logs: dict[SoloKey, list[float]] = {}

    def __bool__(self) -> bool:
        """There is one."""
        return bool(self._logs)

    def add(self, seen: TenantObservation) -> None:
        """Record an observation if it is solo and usable."""
        time = _log_time(seen, self._clock)
        if seen.solo and time is not None:
            self._logs.setdefault(_place(seen), []).append(time)

    def log_time(self, place: SoloKey) -> float | None:
        """Natural logarithm of the time alone; None without a usable trial."""
        alone = self._logs.get(place)
        return None if alone is None else sum(alone) / len(alone)

    def log_slowdown(self, seen: TenantObservation) -> float | None:
        """Natural logarithm of its slowdown; None if it or its solo partner in the block is missing or unusable."""
        alone = self.log_time(_place(seen))
        time = _log_time(seen, self._clock)
        return None if alone is None or time is None else time - alone


def _place(seen: TenantObservation) -> SoloKey:
    # Equal text of thousands of trials, each made anew, is kept once.
    settings, load, of = intern(seen.settings), intern(seen.load), intern(seen.of)
    return SoloKey(seen.run, seen.device, settings, load, seen.block, of, seen.member)


def _log_time(seen: TenantObservation, clock: Clock) -> float | None:
    time = clock(seen)
    if not usable(seen) or seen.n == 0 or time is None or not 0 < time < math.inf:
        return None
    return math.log(time)


def log_slowdowns(
    observations: Sequence[TenantObservation], solos: Solos, calm: Solos | None = None
) -> dict[int, float]:
    """Log slowdowns of a tenant of a cell, by block; blocks without a usable pair are left out.

    ``calm``: the canaries' times alone, to remove variation in the core's own speed.
    """
    logs = _by_block((seen.block, value) for seen in observations if (value := solos.log_slowdown(seen)) is not None)
    if calm is None:
        return logs
    canaries = _by_block((seen.block, value) for seen in observations if (value := calm.log_slowdown(seen)) is not None)
    return adjusted(logs, canaries)


def _by_block(values: Iterable[tuple[int, float]]) -> dict[int, float]:
    """One mean per block, in order."""
    found: dict[int, list[float]] = {}
    for block, value in values:
        found.setdefault(block, []).append(value)
    return {block: sum(mine) / len(mine) for block, mine in sorted(found.items())}


def timed(observations: Sequence[TenantObservation]) -> list[tuple[TenantObservation, float]]:
    """The usable observations, each with the logarithm of its mean latency."""
    return [(seen, time) for seen in observations if (time := _log_time(seen, end_to_end_ns)) is not None]


def log_times(observations: Sequence[TenantObservation]) -> dict[int, float]:
    """Logarithms of a tenant's mean latency in a cell, by block."""
    return _by_block((seen.block, time) for seen, time in timed(observations))


class SlowdownInterval(Protocol):
    """`ratio_interval`, or a function like it."""

    def __call__(self, log_ratios: Sequence[float], *, common: Common | None) -> Estimate:
        """An estimate from log ratios in order, and the correlation that all series have in common."""


class CurrentSlowdown(NamedTuple):
    """State of a tenant beside its neighbours so far."""

    mix: str
    sharing: str
    load: str
    tenant: str
    estimate: Estimate


class RunningSlowdowns:
    """Slowdowns of a run in progress. Keeps a logarithm per tenant and trial."""

    def __init__(self) -> None:
        self._solos, self._calm = Solos(), Solos(canary_us)
        self._shared: dict[tuple[Cell, str], list[tuple[SoloKey, float, float | None]]] = {}

    def add(self, observations: Iterable[TenantObservation]) -> None:
        """Remember what counts."""
        for seen in filter(counts, observations):
            time = _log_time(seen, end_to_end_ns)
            if seen.solo:
                self._solos.add(seen)
                self._calm.add(seen)
            elif time is not None:
                timed = (_place(seen), time, _log_time(seen, canary_us))
                self._shared.setdefault((Cell.of(seen), seen.role), []).append(timed)

    @property
    def empty(self) -> bool:
        """Nothing has been seen yet."""
        return not self._shared and not self._solos

    @property
    def blocks(self) -> int:
        """The most blocks seen for any slowdown."""
        return max((len({place.block for place, _, _ in timed}) for timed in self._shared.values()), default=0)

    def by_block(self) -> Iterator[tuple[Cell, str, list[float]]]:
        """Logarithms of every tenant's slowdown in order of blocks, in order of cells."""
        for (cell, tenant), timed in sorted(self._shared.items(), key=lambda item: item[0]):
            logs, canaries = [
                _by_block(
                    (place.block, value - alone)
                    for place, value in values
                    if value is not None and (alone := solos.log_time(place)) is not None
                )
                for solos, values in (
                    (self._solos, [(place, time) for place, time, _ in timed]),
                    (self._calm, [(place, canary) for place, _, canary in timed]),
                )
            ]
            if logs:
                yield cell, tenant, list(adjusted(logs, canaries).values())

    def current(self, interval: SlowdownInterval = ratio_interval) -> list[CurrentSlowdown]:
        """Slowdowns of all tenants measured so far, in order of their cells."""
        found = list(self.by_block())
        common = common_correlation(np.array(logs) for _, _, logs in found)
        return [
            CurrentSlowdown(cell.mix, cell.sharing, cell.load, tenant, interval(logs, common=common))
            for cell, tenant, logs in found
        ]
