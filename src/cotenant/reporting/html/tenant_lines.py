"""Tenants of one cell as plain values for a template: objective and headroom, slowdown, rate, latency."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant.analyse.decision import MeasuredObjective
from cotenant.analyse.decision.objective import Kept, objective_of
from cotenant.analyse.estimates.quantiles import QuantileEstimate
from cotenant.analyse.sharing.cells import Cell
from cotenant.analyse.sharing.summary import TenantSummary
from cotenant.reporting.figures.material import Material
from cotenant.text import NOTHING, figure, milliseconds, percent, ratio, with_interval

ANSWERS: Mapping[Kept, str] = {"kept": "kept", "missed": "missed", "open": "can't tell yet"}


def keys(material: Material) -> dict[Cell, str]:
    """An HTML-safe key for every cell."""
    return {mix.cell: f"c{number}" for number, mix in enumerate(material.summary.mixes)}


def slowdown(tenant: TenantSummary, *, short: bool = False) -> str:
    """`1.62 [1.58, 1.67]`, or without its interval."""
    least = "≥ " if tenant.slowdown_is_least and tenant.slowdown.est is not None else ""
    if short:
        return f"{least}{NOTHING if tenant.slowdown.est is None else ratio(tenant.slowdown.est)}"
    return least + with_interval(tenant.slowdown, ratio)


def quantile(estimate: QuantileEstimate) -> str:
    """A latency quantile in milliseconds, or the requests it lacks."""
    if estimate.est is not None:
        return with_interval(estimate, figure)
    if estimate.needs_n is not None:
        return f"{NOTHING} (needs {estimate.needs_n - estimate.n:,} more requests)"
    return "∞" if estimate.n else NOTHING


@dataclass(frozen=True, slots=True)
class Limit:
    """A tenant's objective in one cell."""

    asked: str
    alone: str
    seen: str
    """The measured latency, or the share of requests in time if there are too few."""
    answer: str
    kept: Kept
    used: float | None
    """Fraction of the limit used, at most 1.5, for a bar."""
    to_spare: str


@dataclass(frozen=True, slots=True)
class TenantLine:
    """One tenant of one cell, as text."""

    tenant: str
    limit: Limit | None
    throughput: str
    p50: str
    p99: str
    slowdown: str
    requests: str

    @property
    def objective(self) -> str:
        """The objective in short; empty without one."""
        return "" if self.limit is None else f"{self.limit.answer}: {self.limit.asked}, {self.limit.seen}"


def tenant_lines(
    tenants: Sequence[TenantSummary], alone: Mapping[str, MeasuredObjective] | None = None
) -> list[TenantLine]:
    """Rows of a table. ``alone``: each tenant's objective when alone on the device."""
    return [
        TenantLine(
            tenant=one.tenant,
            limit=_limit(objective_of(one), (alone or {}).get(one.of)),
            throughput=with_interval(one.throughput_rps, figure),
            p50=quantile(one.latency_ms["p50"]),
            p99=quantile(one.latency_ms["p99"]),
            slowdown="" if one.cell.solo else slowdown(one),
            requests=f"{one.requests:,}" + (f" ({one.unfinished:,} unfinished)" if one.unfinished else ""),
        )
        for one in tenants
    ]


def _limit(here: MeasuredObjective | None, alone: MeasuredObjective | None) -> Limit | None:
    if here is None:
        return None
    headroom = here.headroom
    return Limit(
        asked=f"{here.name} within {milliseconds(here.limit_ms)}",
        alone=NOTHING if alone is None else _seen(alone),
        seen=_seen(here),
        answer=ANSWERS[here.answer],
        kept=here.answer,
        used=None if headroom is None else round(min(1.5, 1 - headroom), 3),
        to_spare=NOTHING if headroom is None else percent(headroom) if headroom >= 0 else f"{percent(-headroom)} over",
    )


def _seen(objective: MeasuredObjective) -> str:
    if objective.seen is not None and objective.seen.est is not None:
        return f"{with_interval(objective.seen, figure)} ms"
    return f"{percent(objective.share_in_time)} in time"
