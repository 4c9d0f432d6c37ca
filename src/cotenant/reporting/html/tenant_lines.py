"""Tenants of one cell as plain values for a template: objective and headroom, slowdown, rate, latency."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant.analyse.decision import Kept, MeasuredObjective, objective_of
from cotenant.analyse.sharing import Cell, TenantSummary
from cotenant.reporting.figures.material import Material
from cotenant.tenancy.interval import Number
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


def quantile(estimate: Number) -> str:
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
            tenant=tenant.tenant,
            limit=_limit(objective_of(tenant), (alone or {}).get(tenant.of)),
            throughput=with_interval(tenant.throughput_rps, figure),
            p50=quantile(tenant.latency_ms["p50"]),
            p99=quantile(tenant.latency_ms["p99"]),
            slowdown="" if tenant.cell.solo else slowdown(tenant),
            requests=f"{tenant.requests:,}" + (f" ({tenant.unfinished:,} unfinished)" if tenant.unfinished else ""),
        )
        for tenant in tenants
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


# --- generating tenants as plain values for a template: tokens per second and the three token latencies

HEADS = ("tokens/s", "TTFT p50, ms", "TTFT p99, ms", "TPOT p50, ms", "TPOT p99, ms", "ITL p50, ms", "ITL p99, ms")


@dataclass(frozen=True, slots=True)
class TokenLine:
    """One tenant of one cell, as text under `HEADS`."""

    tenant: str
    values: tuple[str, ...]


def token_lines(tenants: Sequence[TenantSummary], alone: Sequence[TenantSummary] = ()) -> list[TokenLine]:
    """Rows of a table; below each tenant, the same ``alone``. Empty if no tenant generates."""
    by_name = {tenant.of: tenant for tenant in alone}
    lines = []
    for tenant in tenants:
        if tenant.tokens is None:
            continue
        lines.append(TokenLine(tenant.tenant, _values(tenant)))
        solo = by_name.get(tenant.of)
        if solo is not None and solo.tokens is not None and not tenant.cell.solo:
            lines.append(TokenLine(f"{tenant.tenant}, alone", _values(solo)))
    return lines


def _values(tenant: TenantSummary) -> tuple[str, ...]:
    assert tenant.tokens is not None
    times = (tenant.tokens.ttft_ms, tenant.tokens.tpot_ms, tenant.tokens.itl_ms)
    return (
        with_interval(tenant.tokens.tokens_per_s, figure),
        *(quantile(quantiles[name]) for quantiles in times for name in ("p50", "p99")),
    )
