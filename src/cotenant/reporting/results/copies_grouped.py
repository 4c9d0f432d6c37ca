"""Copies of a tenant as one: `distilgpt2 x10: each`, with the mean of their figures and the widest interval."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from cotenant.analyse.sharing.cells import Cell
from cotenant.analyse.sharing.summary import TenantSummary

TOKENS = ("ttft_ms", "tpot_ms", "itl_ms")


def copies_grouped(tenants: Iterable[TenantSummary]) -> list[TenantSummary]:
    """The tenants of each cell, copies of one workload together, in their order."""
    groups: dict[tuple[Cell, str], list[TenantSummary]] = {}
    for tenant in tenants:
        groups.setdefault((tenant.cell, tenant.of), []).append(tenant)
    return [group[0] if len(group) == 1 else _together(group) for group in groups.values()]


def copies_name(of: str, count: int) -> str:
    """`distilgpt2 x10, each`."""
    return f"{of} x{count}, each"


def _together(copies: Sequence[TenantSummary]) -> TenantSummary:
    """The slowest of them stands for objectives."""
    slowest = max(copies, key=lambda copy: copy.slowdown.est or 0.0)
    tokens = [copy.tokens for copy in copies if copy.tokens is not None]
    return replace(
        slowest,
        tenant=copies_name(slowest.of, len(copies)),
        requests=sum(copy.requests for copy in copies),
        unfinished=sum(copy.unfinished for copy in copies),
        throughput_rps=_mean([copy.throughput_rps for copy in copies]),
        mean_latency_ms=_mean([copy.mean_latency_ms for copy in copies]),
        slowdown=_mean([copy.slowdown for copy in copies]),
        latency_ms=_quantiles([copy.latency_ms for copy in copies]),
        tokens=None
        if not tokens
        else replace(
            tokens[0],
            tokens_per_s=_mean([each.tokens_per_s for each in tokens]),
            **{times: _quantiles([getattr(each, times) for each in tokens]) for times in TOKENS},
        ),
    )


def _quantiles(many: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: _mean([quantiles[name] for quantiles in many]) for name in many[0]}


def _mean(numbers: Sequence[Any]) -> Any:
    """The mean estimate, with the ends of all intervals; the first number where one has no estimate."""
    missing = next((number for number in numbers if number.est is None), None)
    if missing is not None:
        return missing
    lows, highs = [number.lo for number in numbers], [number.hi for number in numbers]
    return replace(
        numbers[0],
        est=fmean(number.est for number in numbers),
        lo=None if None in lows else min(lows),
        hi=None if None in highs else max(highs),
        n=sum(number.n for number in numbers),
    )
