"""Generating tenants as plain values for a template: tokens per second and the three token latencies."""

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.analyse.sharing.summary import TenantSummary
from cotenant.reporting.html.tenant_lines import quantile
from cotenant.text import figure, with_interval

HEADS = ("tokens/s", "TTFT p50, ms", "TTFT p99, ms", "TPOT p50, ms", "TPOT p99, ms", "ITL p50, ms", "ITL p99, ms")


@dataclass(frozen=True, slots=True)
class TokenLine:
    """One tenant of one cell, as text under `HEADS`."""

    tenant: str
    values: tuple[str, ...]


def token_lines(tenants: Sequence[TenantSummary], alone: Sequence[TenantSummary] = ()) -> list[TokenLine]:
    """Rows of a table; below each tenant, the same ``alone``. Empty if no tenant generates."""
    by_name = {one.of: one for one in alone}
    lines = []
    for one in tenants:
        if one.tokens is None:
            continue
        lines.append(TokenLine(one.tenant, _values(one)))
        solo = by_name.get(one.of)
        if solo is not None and solo.tokens is not None and not one.cell.solo:
            lines.append(TokenLine(f"{one.tenant}, alone", _values(solo)))
    return lines


def _values(tenant: TenantSummary) -> tuple[str, ...]:
    assert tenant.tokens is not None
    times = (tenant.tokens.ttft_ms, tenant.tokens.tpot_ms, tenant.tokens.itl_ms)
    return (
        with_interval(tenant.tokens.tokens_per_s, figure),
        *(quantile(quantiles[name]) for quantiles in times for name in ("p50", "p99")),
    )
