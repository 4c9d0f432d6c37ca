"""The summary of a run: every tenant of every cell and every mix, each number with its interval."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cotenant.analyse.sharing.accuracy import Accuracy, Agree
from cotenant.analyse.sharing.cells import Cell
from cotenant.analyse.sharing.slo import Attainment
from cotenant.analyse.tabular import document, fields_of
from cotenant.tenancy.interval import Number
from cotenant.tenancy.records import ModelErrorRecord, Verdict

# --- metrics of generation: time to first token, per output token and between tokens, tokens per second


@dataclass(frozen=True, slots=True)
class TokenSummary:
    """A tenant of a cell that generates."""

    ttft_ms: Mapping[str, Number]
    """From when a request was due to its first token; p50, p90, p95, p99."""
    tpot_ms: Mapping[str, Number]
    """Mean time per output token of a request, after its first."""
    itl_ms: Mapping[str, Number]
    """Between consecutive tokens, over all of them; blocks are the independent units."""
    tokens_per_s: Number

    def quantile(self, metric: str, name: str) -> Number | None:
        """A quantile of the time to first token or per output token."""
        return {"ttft": self.ttft_ms, "tpot": self.tpot_ms}[metric].get(name)


_WRITTEN_APART = ("cell", "needs_seconds", "mean_latency_ms", "slo", "slo_ms", "objectives", "goodput_rps",
                  "model_error", "software")  # fmt: skip
QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class TenantSummary:
    """A tenant of a cell."""

    cell: Cell
    tenant: str
    of: str
    blocks: int
    """Blocks with a usable trial."""
    requests: int
    unfinished: int
    trials_by_verdict: Mapping[str, int]
    failed_checks: Mapping[str, int]
    throughput_rps: Number
    latency_ms: Mapping[str, Number]
    """p50, p90, p95, p99 of the requests of all usable trials."""
    needs_seconds: Mapping[str, float]
    """For each quantile that needs more requests: how many more seconds, at the rate seen."""
    mean_latency_ms: Number
    """Over completed requests."""
    slowdown: Number
    device_ms: Number
    device_slowdown: Number
    slo: Attainment | None
    """The deciding objective: a missed objective, else an open one, else that with the least headroom."""
    slo_ms: float | None
    """The limit of that objective."""
    objectives: tuple[tuple[float, Attainment], ...]
    """Every objective, with its limit in ms."""
    tokens: TokenSummary | None
    """None unless the tenant generates tokens."""
    goodput_rps: Number | None
    """Requests per second within every objective."""
    rate_rps: float | None = None
    """Intended rate of an open load."""
    arrived_rps: float | None = None
    """Requests that were due, per second; None: none were."""
    model_error: ModelErrorRecord | None = None
    """Error of a simulated tenant, which its intervals include."""
    software: str | None = None
    """What executed the model; None for servers, kernels and workloads of yours."""

    @property
    def slowdown_is_least(self) -> bool:
        """Requests that never completed are missing from the mean: the true slowdown is higher."""
        return self.unfinished > 0 and not self.cell.solo

    def to_json(self) -> dict[str, Any]:
        """Plain data; see `Summary.to_json`."""
        latency: dict[str, Any] = {name: quantile.to_json() for name, quantile in self.latency_ms.items()}
        for name, seconds in self.needs_seconds.items():
            latency[name]["needs_seconds"] = seconds
        error = self.model_error
        row = self.cell.to_json() | fields_of(self, "slowdown_is_least", without=_WRITTEN_APART)
        row |= {
            "latency_ms": latency | {"mean": self.mean_latency_ms},
            "slo": None,
            "simulated_as": error and {"class": error.kind, "validated": error.validated, "error": error.sentence},
        }
        if self.slo is not None and self.goodput_rps is not None:
            row["slo"] = {
                "metric": self.slo.metric,
                "objective_ms": self.slo_ms,
                "quantile": self.slo.quantile,
                "attainment": self.slo.share,
                "answer": self.slo.answer,
                "needs_n": self.slo.needs_n,
                "goodput_rps": self.goodput_rps,
                "objectives": [
                    {
                        "metric": attainment.metric,
                        "objective_ms": limit_ms,
                        "quantile": attainment.quantile,
                        "attainment": attainment.share,
                        "answer": attainment.answer,
                    }
                    for limit_ms, attainment in self.objectives
                ],
            }
        return row


@dataclass(frozen=True, slots=True)
class MixSummary:
    """One cell as a whole."""

    cell: Cell
    tenants: tuple[str, ...]
    blocks: int
    """Blocks in which every tenant has a slowdown."""
    slowdown: Mapping[str, Number]
    """Slowdown of each tenant, by name."""
    metrics: Mapping[str, Number]
    """stp, antt, harmonic_speedup, fairness, jain."""
    verdict: Verdict
    """`valid`: every trial was. `unstable`: some were not, but some can be used. `invalid`: none can."""
    failed_checks: Mapping[str, int]
    """Names of failed checks and the number of trials that failed them."""
    trials_by_verdict: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """Plain data; see `Summary.to_json`."""
        return (
            self.cell.to_json()
            | {"tenants": list(self.tenants), "blocks": self.blocks}
            | dict(self.metrics)
            | {
                "verdict": self.verdict,
                "failed_checks": sorted(self.failed_checks),
                "trials_by_failed_check": dict(self.failed_checks),
                "trials_by_verdict": dict(self.trials_by_verdict),
            }
        )


@dataclass(frozen=True, slots=True)
class Summary:
    """Every tenant and every mix of any number of runs."""

    tenants: tuple[TenantSummary, ...]
    mixes: tuple[MixSummary, ...]
    block_seconds: Mapping[str, float]
    """By run: measured seconds of a block, all its trials together; the least that another block would cost."""
    accuracy: Mapping[str, Accuracy] = field(default_factory=dict)
    """By run: precision of its slowdowns."""
    windows: Agree | None = None
    """Comparison of long windows with short ones, where there are both."""
    doubts: tuple[str, ...] = ()
    """One sentence for each cell whose windows, taken together, have too few requests or are not steady."""

    def to_json(self) -> dict[str, Any]:
        """Plain data, stable within a schema version; NaN and infinity never occur.

        ``{"schema_version": 1, "tenants": [...], "mixes": [...], "block_seconds": {...}, "accuracy": {...},
        "short_windows": {...} or null, "doubts": [...]}``. Every number is an object
        ``{"est", "lo", "hi", "n", "method"}``. Where it is missing, ``est`` is null and ``reason`` says why. A
        quantile that needs more requests also has ``needs_n`` (how many in total) and ``needs_seconds`` (how many more
        seconds at the rate seen).
        """
        return document(
            tenants=self.tenants,
            mixes=self.mixes,
            block_seconds=self.block_seconds,
            accuracy=self.accuracy,
            short_windows=self.windows,
            doubts=self.doubts,
        )
