"""Metrics of generation: time to first token, per output token and between tokens, tokens per second."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cotenant.analyse.estimates.quantiles import Number, QuantileEstimate


@dataclass(frozen=True, slots=True)
class TokenSummary:
    """One tenant of one cell that generates."""

    ttft_ms: Mapping[str, QuantileEstimate]
    """From when a request was due to its first token; p50, p90, p95, p99."""
    tpot_ms: Mapping[str, QuantileEstimate]
    """Mean time per output token of a request, after its first."""
    itl_ms: Mapping[str, QuantileEstimate]
    """Between consecutive tokens, over all of them; blocks are the independent units."""
    tokens_per_s: Number

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "ttft_ms": {name: one.to_json() for name, one in self.ttft_ms.items()},
            "tpot_ms": {name: one.to_json() for name, one in self.tpot_ms.items()},
            "itl_ms": {name: one.to_json() for name, one in self.itl_ms.items()},
            "tokens_per_s": self.tokens_per_s,
        }

    def quantile(self, metric: str, name: str) -> QuantileEstimate | None:
        """A quantile of the time to first token or per output token."""
        return {"ttft": self.ttft_ms, "tpot": self.tpot_ms}[metric].get(name)
