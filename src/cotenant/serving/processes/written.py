"""Costs and chunks as plain data, for messages and files."""

from collections.abc import Mapping, Sequence
from typing import Any

from cotenant.scheduling import BatchCurve, Chunk, ChunkCost, TenantCosts


def costs_out(costs: TenantCosts) -> dict[str, Any]:
    """A tenant's costs as plain data."""
    return {
        "chunks": [_cost_out(chunk) for chunk in costs.chunks],
        "curve": list(costs.curve.factors),
        "step": _cost_out(costs.step) if costs.step else None,
        "step_curve": list(costs.step_curve.factors),
        "steps": costs.steps,
        "cache_bytes": costs.cache_bytes,
    }


def costs_in(data: Mapping[str, Any]) -> TenantCosts:
    """The costs that `costs_out` wrote."""
    return TenantCosts(
        tuple(ChunkCost(*chunk) for chunk in data["chunks"]),
        BatchCurve(tuple(data["curve"])),
        ChunkCost(*data["step"]) if data["step"] else None,
        BatchCurve(tuple(data["step_curve"])),
        data["steps"],
        data.get("cache_bytes", 0),
    )


def chunk_out(chunk: Chunk) -> list[Any]:
    """A chunk as plain data."""
    return [*chunk[:3], list(chunk.requests), *chunk[4:]]


def chunk_in(data: Sequence[Any]) -> Chunk:
    """The chunk that `chunk_out` wrote."""
    version, slot, tenant, requests, stage, steps, predicted_s = data
    return Chunk(version, slot, tenant, tuple(requests), stage, steps, predicted_s)


def _cost_out(cost: ChunkCost) -> list[float]:
    return [cost.p50_s, cost.p90_s, cost.spaced_s]
