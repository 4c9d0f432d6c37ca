"""Whether a tenant meets its objective in one cell, and with how much headroom."""

from dataclasses import dataclass
from typing import Literal

from cotenant.analyse.estimates.quantiles import QuantileEstimate
from cotenant.analyse.sharing.model_error import time_range
from cotenant.analyse.sharing.slo import Metric
from cotenant.analyse.sharing.summary import QUANTILES, TenantSummary

Kept = Literal["kept", "missed", "open"]
_KEPT: dict[str, Kept] = {"met": "kept", "missed": "missed", "undecided": "open"}
_NAMES = {quantile: name for name, quantile in QUANTILES.items()}


@dataclass(frozen=True, slots=True)
class MeasuredObjective:
    """A latency objective and the measurements against it."""

    quantile: float
    limit_ms: float
    seen: QuantileEstimate | None
    """Latency at that quantile, in ms; None if not estimated."""
    share_in_time: float
    answer: Kept
    more_s: float | None
    """Seconds of measuring that would decide an open objective, at the rate seen; None if decided or out of reach."""
    metric: Metric = "latency"

    @property
    def name(self) -> str:
        """`p99`, `p99.9`, `ttft p95`."""
        return f"{'' if self.metric == 'latency' else self.metric + ' '}p{100 * self.quantile:g}"

    @property
    def headroom(self) -> float | None:
        """Share of the limit that is left; negative if the limit is exceeded."""
        return None if self.seen is None or self.seen.est is None else 1 - self.seen.est / self.limit_ms


def objective_of(tenant: TenantSummary) -> MeasuredObjective | None:
    """The tenant's objective in its cell; None if it has none."""
    if tenant.slo is None or tenant.slo_ms is None:
        return None
    name = _NAMES.get(tenant.slo.quantile)
    seen = None if name is None else _seen(tenant, tenant.slo.metric, name)
    answer = _KEPT[tenant.slo.answer]
    by_error = tenant.cell.simulated and seen is not None and _within_error(tenant, seen, tenant.slo_ms)
    if by_error:
        answer = "open"  # more simulated requests say nothing about the error of the simulation
    return MeasuredObjective(
        quantile=tenant.slo.quantile,
        limit_ms=tenant.slo_ms,
        seen=seen,
        share_in_time=tenant.slo.share.est,
        answer=answer,
        more_s=_more_seconds(tenant) if answer == "open" and not by_error else None,
        metric=tenant.slo.metric,
    )


def _seen(tenant: TenantSummary, metric: Metric, name: str) -> QuantileEstimate | None:
    if metric == "latency":
        return tenant.latency_ms[name]
    return None if tenant.tokens is None else tenant.tokens.quantile(metric, name)


def _within_error(tenant: TenantSummary, seen: QuantileEstimate, limit_ms: float) -> bool:
    """True if the simulation may be wrong by enough to reverse the answer.

    An end that too few requests leave unknown is at least as far away as the error of the model.
    """
    if seen.est is None:
        return False
    low, high = 1.0, 1.0
    if tenant.model_error is not None:
        low, high = time_range(tenant.model_error, solo=tenant.cell.solo, tail=True)
    lo = seen.est * min(low, 1.0) if seen.lo is None else seen.lo
    hi = seen.est * max(high, 1.0) if seen.hi is None else seen.hi
    return lo <= limit_ms <= hi


def _more_seconds(tenant: TenantSummary) -> float | None:
    rate = tenant.throughput_rps.est
    if tenant.slo is None or tenant.slo.needs_n is None or not rate:
        return None
    return max(0, tenant.slo.needs_n - tenant.slo.share.n) / rate
