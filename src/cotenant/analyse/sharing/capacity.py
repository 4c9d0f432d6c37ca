"""Capacity: the request rate up to which a tenant keeps its objectives, alone and beside others."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from cotenant.analyse.sharing.cells import Cell
from cotenant.analyse.sharing.evidence import arrivals_and_rate
from cotenant.analyse.sharing.summary import Summary, TenantSummary
from cotenant.text import in_time, percent

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
class Curve:
    """One tenant of one mix, shared one way: attainment by rate, slowest first."""

    cell: Cell
    """Its load is the kind of arrivals; empty where each tenant has its own."""
    tenant: str
    of: str
    levels: tuple[RateAttainment, ...]

    @property
    def knee(self) -> RateAttainment | None:
        """The highest rate with every lower measured one kept too; None if not even the lowest was kept."""
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
        return {
            "mix": self.cell.mix,
            "sharing": self.cell.sharing,
            "arrivals": self.cell.load,
            "solo": self.cell.solo,
            "run": self.cell.run,
            "tenant": self.tenant,
            "of": self.of,
            "knee_rps": None if self.knee is None else self.knee.rate_rps,
            "broken_rps": None if self.broken is None else self.broken.rate_rps,
            "levels": [
                {
                    "rate_rps": level.rate_rps,
                    "attainment": level.attainment,
                    "quantile": level.quantile,
                    "goodput_rps": level.goodput_rps,
                }
                for level in self.levels
            ],
        }


def capacity_curves(summary: Summary) -> tuple[Curve, ...]:
    """Every tenant with an objective that was measured at three or more rates, for each kind of arrivals."""
    groups: dict[tuple[Cell, str, str], list[RateAttainment]] = {}
    for one in summary.tenants:
        level = _level(one)
        if level is not None:
            arrivals, _ = arrivals_and_rate(one.cell.load) or ("", 0.0)
            groups.setdefault((replace(one.cell, load=arrivals), one.tenant, one.of), []).append(level)
    return tuple(
        Curve(cell, tenant, of, tuple(sorted(levels, key=lambda level: level.rate_rps)))
        for (cell, tenant, of), levels in sorted(groups.items())
        if len({level.rate_rps for level in levels}) >= FEWEST_LEVELS
    )


def capacity_sentences(curves: Sequence[Curve]) -> list[str]:
    """Alone first, then beside each neighbour with the share that remains."""
    kinds = len({curve.cell.load for curve in curves})
    return [_sentence(curve, before, several=kinds > 1) for curve, before in beside_alone(curves)]


def beside_alone(curves: Sequence[Curve]) -> list[tuple[Curve, Curve | None]]:
    """Each curve, and the one of the same tenant alone under the same arrivals."""
    alone = {(curve.cell.run, curve.cell.load, curve.of): curve for curve in curves if curve.cell.solo}
    return [
        (curve, None if curve.cell.solo else alone.get((curve.cell.run, curve.cell.load, curve.of))) for curve in curves
    ]


def _level(one: TenantSummary) -> RateAttainment | None:
    if one.rate_rps is None or not one.objectives:
        return None
    worst = min((found for _, found in one.objectives), key=lambda found: found.share.est - found.quantile)
    goodput = None if one.goodput_rps is None else one.goodput_rps.est
    return RateAttainment(one.rate_rps, worst.share.est, worst.quantile, goodput)


def _sentence(curve: Curve, alone: Curve | None, *, several: bool) -> str:
    where = "alone" if curve.cell.solo else f"in {curve.cell.mix} ({curve.cell.sharing})"
    if several and curve.cell.load:
        where += f" under {curve.cell.load}"
    knee, broken = curve.knee, curve.broken
    if knee is None:
        assert broken is not None
        what = (
            f"misses its objectives already at {broken.rate_rps:.3g} requests/s ({in_time(broken.attainment)} in time)"
        )
    elif broken is None:
        what = f"keeps its objectives at every rate measured, up to {knee.rate_rps:.3g} requests/s"
    else:
        what = (
            f"keeps its objectives up to {knee.rate_rps:.3g} requests/s, and no longer at {broken.rate_rps:.3g} "
            f"({in_time(broken.attainment)} in time)"
        )
    before = None if alone is None else alone.knee
    left = f": {percent(knee.rate_rps / before.rate_rps)} of what it keeps alone" if knee and before else ""
    return f"{curve.tenant} {where} {what}{left}."
