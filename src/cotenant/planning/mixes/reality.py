"""Compare a plan with its measurement: is every figure within the plan's interval?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cotenant.analyse.estimates.quantiles import QuantileEstimate
from cotenant.analyse.sharing.slo import Attainment
from cotenant.analyse.sharing.summary import TenantSummary
from cotenant.planning.mixes.study import gathered_ms

Verdict = Literal["as planned", "slower", "faster", "can't tell"]


@dataclass(frozen=True, slots=True)
class Beside:
    """One objective of one tenant: predicted and measured."""

    tenant: str
    objective: str
    limit_ms: float
    lower_ms: float
    expected_ms: float
    upper_ms: float
    measured_ms: float | None
    measured_lo: float | None
    measured_hi: float | None
    attained: float | None
    attained_lo: float | None
    attained_hi: float | None
    wanted: float
    kept: str
    """`met`, `missed` or `undecided`."""
    requests: int

    @property
    def verdict(self) -> Verdict:
        """`slower` or `faster` only if the entire measured interval lies outside the plan's.

        An end that too few requests leave unknown decides nothing.
        """
        if self.measured_lo is not None and self.measured_lo > self.upper_ms:
            return "slower"
        if self.measured_hi is not None and self.measured_hi < self.lower_ms:
            return "faster"
        return "can't tell" if self.measured_lo is None or self.measured_hi is None else "as planned"


def beside(document: Mapping[str, Any], rows: Sequence[TenantSummary]) -> tuple[Beside, ...]:
    """Every objective of the plan covered by a run.

    Args:
        document: Contents of plan.yaml.
        rows: Rows of the run; a tenant is looked up by name in the largest mix that has it.
    """
    found = []
    for device in document["devices"]:
        for name, seat in device["tenants"].items():
            row = max((one for one in rows if one.of == name), key=lambda one: len(one.cell.mix), default=None)
            if row is None:
                continue
            gathered = gathered_ms(seat)
            for label, expected in (seat.get("expected") or {}).items():
                found.append(_beside(name, label, expected, row, 0.0 if label.startswith("tpot") else gathered))
    return tuple(found)


def _beside(name: str, label: str, expected: Mapping[str, float], row: TenantSummary, gathered: float) -> Beside:
    metric, _, quantile = label.rpartition(" ")
    metric = metric or "latency"
    measured = _quantile(row, metric, quantile)
    promise = _attainment(row, metric)
    shift = None if measured is None or measured.est is None else gathered
    return Beside(
        tenant=name,
        objective=label,
        limit_ms=float(expected["limit_ms"]),
        lower_ms=float(expected["lower_ms"]),
        expected_ms=float(expected["estimate_ms"]),
        upper_ms=float(expected["upper_ms"]),
        measured_ms=_shifted(measured.est if measured else None, shift),
        measured_lo=_shifted(measured.lo if measured else None, shift),
        measured_hi=_shifted(measured.hi if measured else None, shift),
        attained=promise.share.est if promise else None,
        attained_lo=promise.share.lo if promise else None,
        attained_hi=promise.share.hi if promise else None,
        wanted=float(quantile.removeprefix("p")) / 100,
        kept=promise.answer if promise else "undecided",
        requests=row.requests,
    )


def _quantile(row: TenantSummary, metric: str, quantile: str) -> QuantileEstimate | None:
    if metric == "latency":
        return row.latency_ms.get(quantile)
    times = getattr(row.tokens, f"{metric}_ms", None) if row.tokens is not None else None
    return times.get(quantile) if isinstance(times, Mapping) else None


def _attainment(row: TenantSummary, metric: str) -> Attainment | None:
    return next((one for _, one in row.objectives if one.metric == metric), None)


def _shifted(value: float | None, by: float | None) -> float | None:
    return None if value is None or by is None else value + by
