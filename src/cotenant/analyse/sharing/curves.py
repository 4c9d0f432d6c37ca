"""Latency distributions, reduced in a single pass: only one tenant's latencies are in memory at a time."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from cotenant.analyse.sharing.cells import Cell, usable
from cotenant.tenancy.records import Int64s, TenantObservation

POINTS_PER_DECADE = 16
REQUESTS_BEHIND_A_QUANTILE = 3
"""About three requests must lie beyond a quantile for it to be shown, as in the tables: 299 for a p99."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Latency against the odds of being slower: at ``odds`` 100, one request in a hundred took longer."""

    cell: Cell
    tenant: str
    of: str
    n: int
    unfinished: int
    odds: tuple[float, ...]
    latency_ms: tuple[float, ...]

    def thinned(self, most: int) -> "list[tuple[float, float]]":
        """At most this many points, evenly chosen, both ends included."""
        points = list(zip(self.odds, self.latency_ms, strict=True))
        if len(points) <= most:
            return points
        chosen = np.unique(np.linspace(0, len(points) - 1, max(2, most)).round().astype(int))
        return [points[index] for index in chosen]


def curve_points(latencies_ns: Int64s, unfinished: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Points of the curve, as far as the number of requests allows; unfinished requests are infinitely late."""
    n = latencies_ns.size + unfinished
    rarest = n / REQUESTS_BEHIND_A_QUANTILE
    if latencies_ns.size == 0 or rarest < 1:
        return (), ()
    decades = np.log10(rarest)
    odds = 10 ** (np.arange(int(decades * POINTS_PER_DECADE) + 1) / POINTS_PER_DECADE)
    odds = np.unique(np.append(odds, 2.0 if rarest >= 2 else 1.0))
    ranks = np.maximum(1, np.ceil((1 - 1 / odds) * n - 1e-9).astype(np.int64))
    finite = ranks <= latencies_ns.size
    ranks, odds = ranks[finite], odds[finite]
    ordered = np.sort(latencies_ns)
    return tuple(float(o) for o in odds), tuple(float(v) / 1e6 for v in ordered[ranks - 1])


@dataclass(slots=True)
class CurveCollector:
    """Reduces the latencies of observations on their way to the summary."""

    curves: list[Curve] = field(default_factory=list)
    _key: tuple[Cell, str, str] | None = None
    _held: list[Int64s] = field(default_factory=list)
    _unfinished: int = 0

    def watch(self, observations: Iterable[TenantObservation]) -> Iterator[TenantObservation]:
        """Pass every observation on; those of one tenant of one cell are consecutive."""
        for seen in observations:
            key = Cell.of(seen), seen.role, seen.of
            if key != self._key:
                self._close()
                self._key = key
            if usable(seen) and seen.latency_ns is not None:
                self._held.append(seen.latency_ns)
                self._unfinished += seen.unfinished
            yield seen
        self._close()

    def _close(self) -> None:
        if self._key is not None and self._held:
            cell, tenant, of = self._key
            latencies = np.concatenate(self._held)
            odds, values = curve_points(latencies, self._unfinished)
            self.curves.append(
                Curve(cell, tenant, of, latencies.size + self._unfinished, self._unfinished, odds, values)
            )
        self._key, self._held, self._unfinished = None, [], 0
