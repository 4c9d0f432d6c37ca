"""One copy at rising load: from how many requests in flight on does it serve no more?

A copy that isn't saturated makes no baseline: more copies would then gain only because more requests are in flight.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from cotenant.analyse.estimates.quantiles import Number
from cotenant.analyse.sharing.summary import Summary
from cotenant.tenancy.load import Load
from cotenant.text import figure

STILL_GROWS = 0.05
"""Growth of the throughput per doubling of the load above which a copy is not saturated."""
ENOUGH = 1 / (1 + STILL_GROWS)
"""The least load with this share of the highest throughput is the tuned one: more only queues."""


@dataclass(frozen=True, slots=True)
class Level:
    """One copy with so many requests in flight."""

    outstanding: int
    throughput_rps: Number
    latency_ms: Number
    """Mean."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """One copy alone under rising load."""

    levels: tuple[Level, ...]
    """By requests in flight."""
    asked: int | None = None
    """Requests in flight that were asked for; None: to be found."""

    @property
    def chosen(self) -> Level | None:
        """The asked level, or the least that serves about as much as any; None if nothing was served."""
        if self.asked is not None:
            return next((level for level in self._served() if level.outstanding == self.asked), None)
        most = max((level.throughput_rps.est or 0.0 for level in self.levels), default=0.0)
        return next((level for level in self._served() if (level.throughput_rps.est or 0.0) >= ENOUGH * most), None)

    @property
    def saturated(self) -> bool:
        """A higher level than the chosen one was tried, and none served clearly more."""
        chosen = self.chosen
        if chosen is None or chosen.throughput_rps.est is None:
            return False
        above = [level for level in self._served() if level.outstanding > chosen.outstanding]
        limit = chosen.throughput_rps.est * (1 + STILL_GROWS)
        return bool(above) and all((level.throughput_rps.est or 0.0) <= limit for level in above)

    @property
    def sentence(self) -> str:
        """What was found, in one sentence."""
        chosen = self.chosen
        if chosen is None or chosen.throughput_rps.est is None:
            return "One copy served no request."
        said = f"One copy serves {figure(chosen.throughput_rps.est)}/s with {chosen.outstanding} in flight"
        if self.saturated:
            return f"{said}, and no more with a higher load."
        best = max(self._served(), key=lambda level: level.throughput_rps.est or 0.0)
        if best.outstanding > chosen.outstanding:
            more = f"{figure(best.throughput_rps.est or 0.0)}/s with {best.outstanding}"
            return f"{said}, but {more}: it isn't saturated, so it is no baseline."
        return f"{said}, the most that was tried: it isn't saturated, so it is no baseline."

    def _served(self) -> list[Level]:
        return [level for level in self.levels if level.throughput_rps.est]


def levels_of(summary: Summary) -> Iterable[Level]:
    """The levels of a tuning run."""
    for tenant in summary.tenants:
        yield Level(Load.model_validate(tenant.cell.load).outstanding, tenant.throughput_rps, tenant.mean_latency_ms)
