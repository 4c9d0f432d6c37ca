"""Capacity: the request rate up to which a tenant keeps its objectives, alone and beside others."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cotenant.analyse.sharing.cells import Cell, usable
from cotenant.analyse.sharing.evidence import arrivals_and_rate
from cotenant.analyse.sharing.summary import Summary, TenantSummary
from cotenant.analyse.tabular import fields_of
from cotenant.tenancy.records import Int64s, TenantObservation
from cotenant.text import in_time, percent, rate

FEWEST_LEVELS = 3
"""Fewest rates for a curve."""


@dataclass(frozen=True, slots=True)
class RateAttainment:
    """One rate and the attainment of the objectives there."""

    rate_rps: float
    """Asked for."""
    attainment: float
    """Share of requests in time, for the objective with the least headroom."""
    quantile: float
    """The share required."""
    goodput_rps: float | None

    @property
    def kept(self) -> bool:
        """By its estimate."""
        return self.attainment >= self.quantile


@dataclass(frozen=True, slots=True)
class CapacityCurve:
    """A tenant of a mix under a way to share: attainment by rate, slowest first."""

    cell: Cell
    """Its load is the kind of arrivals; empty where each tenant has its own."""
    tenant: str
    of: str
    levels: tuple[RateAttainment, ...]

    @property
    def knee(self) -> RateAttainment | None:
        """The highest rate with every lower measured rate kept too; None if not even the lowest was kept."""
        found = None
        for level in self.levels:
            if not level.kept:
                break
            found = level
        return found

    @property
    def broken(self) -> RateAttainment | None:
        """The first rate that was not kept; None if all were."""
        return next((level for level in self.levels if not level.kept), None)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        cell = {"mix": self.cell.mix, "sharing": self.cell.sharing, "arrivals": self.cell.load, "solo": self.cell.solo}
        return (
            cell
            | {"run": self.cell.run}
            | fields_of(self, without=("cell",))
            | {
                "knee_rps": None if self.knee is None else self.knee.rate_rps,
                "broken_rps": None if self.broken is None else self.broken.rate_rps,
            }
        )


def capacity_curves(summary: Summary) -> tuple[CapacityCurve, ...]:
    """Every tenant with an objective that was measured at three or more rates, for each kind of arrivals."""
    groups: dict[tuple[Cell, str, str], list[RateAttainment]] = {}
    for tenant in summary.tenants:
        level = _level(tenant)
        if level is not None:
            arrivals, _ = arrivals_and_rate(tenant.cell.load) or ("", 0.0)
            groups.setdefault((replace(tenant.cell, load=arrivals), tenant.tenant, tenant.of), []).append(level)
    return tuple(
        CapacityCurve(cell, tenant, of, tuple(sorted(levels, key=lambda level: level.rate_rps)))
        for (cell, tenant, of), levels in sorted(groups.items())
        if len({level.rate_rps for level in levels}) >= FEWEST_LEVELS
    )


def capacity_sentences(curves: Sequence[CapacityCurve]) -> list[str]:
    """Alone first, then beside each neighbour with the share that remains."""
    kinds = len({curve.cell.load for curve in curves})
    return [_sentence(curve, before, several=kinds > 1) for curve, before in beside_alone(curves)]


def beside_alone(curves: Sequence[CapacityCurve]) -> list[tuple[CapacityCurve, CapacityCurve | None]]:
    """Each curve, and that of the same tenant alone under the same arrivals."""
    alone = {(curve.cell.run, curve.cell.load, curve.of): curve for curve in curves if curve.cell.solo}
    return [
        (curve, None if curve.cell.solo else alone.get((curve.cell.run, curve.cell.load, curve.of))) for curve in curves
    ]


def _level(tenant: TenantSummary) -> RateAttainment | None:
    if tenant.rate_rps is None or not tenant.objectives:
        return None
    worst = min((found for _, found in tenant.objectives), key=lambda found: found.share.est - found.quantile)
    goodput = None if tenant.goodput_rps is None else tenant.goodput_rps.est
    return RateAttainment(tenant.rate_rps, worst.share.est, worst.quantile, goodput)


def _sentence(curve: CapacityCurve, alone: CapacityCurve | None, *, several: bool) -> str:
    where = "alone" if curve.cell.solo else f"in {curve.cell.mix} ({curve.cell.sharing})"
    if several and curve.cell.load:
        where += f" under {curve.cell.load}"
    knee, broken = curve.knee, curve.broken
    if knee is None:
        assert broken is not None
        what = f"misses its objectives already at {rate(broken.rate_rps)} ({in_time(broken.attainment)} in time)"
    elif broken is None:
        what = f"keeps its objectives at every rate measured, up to {rate(knee.rate_rps)}"
    else:
        what = (
            f"keeps its objectives up to {rate(knee.rate_rps)}, and no longer at {broken.rate_rps:.3g} "
            f"({in_time(broken.attainment)} in time)"
        )
    before = None if alone is None else alone.knee
    left = f": {percent(knee.rate_rps / before.rate_rps)} of what it keeps alone" if knee and before else ""
    return f"{curve.tenant} {where} {what}{left}."


# --- latency distributions, reduced in a single pass: the latencies of a single tenant are in memory at a time

POINTS_PER_DECADE = 16
REQUESTS_BEHIND_A_QUANTILE = 3
"""About three requests must lie beyond a quantile for it to be shown, as in the tables: 299 for a p99."""


@dataclass(frozen=True, slots=True)
class LatencyCurve:
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

    curves: list[LatencyCurve] = field(default_factory=list)
    _key: tuple[Cell, str, str] | None = None
    _held: list[Int64s] = field(default_factory=list)
    _unfinished: int = 0

    def watch(self, observations: Iterable[TenantObservation]) -> Iterator[TenantObservation]:
        """Pass every observation on; those of a tenant of a cell are consecutive."""
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
                LatencyCurve(cell, tenant, of, latencies.size + self._unfinished, self._unfinished, odds, values)
            )
        self._key, self._held, self._unfinished = None, [], 0
