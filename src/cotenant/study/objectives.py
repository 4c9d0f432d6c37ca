"""Objectives in a study: `slo: {p99: 30ms}`, `{ttft p95: 300ms, tpot p95: 40ms}`, `50ms`."""

import re
from typing import Any, Self

from pydantic import Field, model_serializer, model_validator

from cotenant.study.values import Latency, Quantile, duration_written, quantile_written
from cotenant.study.words import did_you_mean, key_shown
from cotenant.tenancy.nouns import Frozen, Slo

GOAL = r"^\s*((latency|ttft|tpot)\s+)?p\d{1,2}(\.\d+)?\s*$"
"""A key of an objective: a metric (none: latency) and a quantile."""
_FORM = "p99, ttft p95, tpot p95 or the like"


class SloEntry(Frozen):
    """A tenant's objective: `{p99: 30ms}`, or with metrics of generation `{ttft p95: 300ms, tpot p95: 40ms}`.

    `50ms` is short for `{p99: 50ms}`, and for `{latency: 50ms, quantile: p99}`.
    """

    latency_s: Latency | None = Field(
        default=None, alias="latency", description="Time limit of a request.", examples=["50ms"]
    )
    quantile: Quantile = Field(default=0.99, description="The share of requests that must meet it.", examples=["p99"])
    ttft_s: Latency | None = Field(default=None, alias="ttft", description="Time to the first token.")
    ttft_quantile: Quantile = Field(default=0.99, description="The share of requests that must meet it.")
    tpot_s: Latency | None = Field(
        default=None, alias="tpot", description="Mean time per output token of a request after its first."
    )
    tpot_quantile: Quantile = Field(default=0.99, description="The share of requests that must meet it.")

    @model_validator(mode="before")
    @classmethod
    def _from_goals(cls, value: Any) -> Any:
        if isinstance(value, SloEntry):
            return value
        if not isinstance(value, dict):
            return {"latency": value}
        return _spelled_out(value)

    @model_validator(mode="after")
    def _promises_something(self) -> Self:
        if self.latency_s is None and self.ttft_s is None and self.tpot_s is None:
            raise ValueError("latency is missing, such as 50ms")
        return self

    @model_serializer
    def _as_goals(self) -> dict[str, str]:
        return {
            f"{'' if metric == 'latency' else metric + ' '}{quantile_written(quantile)}": duration_written(limit_s)
            for metric, limit_s, quantile in self._goals()
        }

    def slo(self) -> Slo:
        """Convert to the measurement's type."""
        fields: dict[str, float] = {}
        for metric, limit_s, quantile in self._goals():
            fields[f"{metric}_ms"] = limit_s * 1e3
            fields["quantile" if metric == "latency" else f"{metric}_quantile"] = quantile
        return Slo.model_validate(fields)

    def _goals(self) -> list[tuple[str, float, float]]:
        goals = (
            ("latency", self.latency_s, self.quantile),
            ("ttft", self.ttft_s, self.ttft_quantile),
            ("tpot", self.tpot_s, self.tpot_quantile),
        )
        return [(metric, limit_s, quantile) for metric, limit_s, quantile in goals if limit_s is not None]


def _spelled_out(value: dict[Any, Any]) -> dict[str, Any]:
    """Objectives split into a limit and a quantile for each metric; an invalid key is an error."""
    found: dict[str, Any] = {}
    for key, limit in value.items():
        words = str(key).split()
        if re.match(GOAL, str(key)):
            metric = words[0] if len(words) == 2 else "latency"
            if metric in found:
                raise ValueError(f"{metric} has more than one limit; give each metric one quantile and one time")
            found[metric] = limit
            found["quantile" if metric == "latency" else f"{metric}_quantile"] = words[-1]
        elif key in {"latency", "ttft", "tpot", "quantile"}:
            if key in found:
                raise ValueError(f"{key} has more than one limit; give each metric one quantile and one time")
            found[str(key)] = limit  # at p99, unless the latency's quantile is given too
        else:
            near = did_you_mean(str(key), ("latency", "quantile", "p99", "ttft p95", "tpot p95"))
            raise ValueError(f"{key_shown(str(key))} is not an objective; expected {_FORM}{near}")
    if "quantile" in found and "latency" not in found:
        raise ValueError("latency is missing, such as 50ms")
    return found
