"""A way to share a mix: its effect on the work done, on each tenant and on every objective."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cotenant.analyse.estimates.distributions import beta_cdf, normal_cdf
from cotenant.analyse.sharing.cells import Cell
from cotenant.analyse.sharing.model_error import time_range
from cotenant.analyse.sharing.slo import Metric
from cotenant.analyse.sharing.summary import QUANTILES, MixSummary, TenantSummary
from cotenant.tenancy.interval import Number
from cotenant.text import together

# --- whether a tenant meets its objective in a cell, and with how much headroom

Kept = Literal["kept", "missed", "open"]
_KEPT: dict[str, Kept] = {"met": "kept", "missed": "missed", "undecided": "open"}
_NAMES = {quantile: name for name, quantile in QUANTILES.items()}
_SIMULATED_SIDE, _MEASURED_SIDE = 1.645, 1.96
"""Deviations from an estimate to the end of its interval: nine in ten errors of a simulation, 95 % of samples."""


@dataclass(frozen=True, slots=True)
class MeasuredObjective:
    """A latency objective and the measurements against it."""

    quantile: float
    limit_ms: float
    seen: Number | None
    """Latency at that quantile, in ms; None if not estimated."""
    share_in_time: float
    answer: Kept
    more_s: float | None
    """Seconds of measuring that would decide an open objective, at the rate seen; None if decided or out of reach."""
    chance: float
    """Probability that it is kept, by what was seen and how far off that may be."""
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
        chance=_chance(tenant, seen, tenant.slo_ms),
        metric=tenant.slo.metric,
    )


def _seen(tenant: TenantSummary, metric: Metric, name: str) -> Number | None:
    if metric == "latency":
        return tenant.latency_ms[name]
    return None if tenant.tokens is None else tenant.tokens.quantile(metric, name)


def _within_error(tenant: TenantSummary, seen: Number, limit_ms: float) -> bool:
    """True if the simulation may be wrong by enough to reverse the answer."""
    if seen.est is None:
        return False
    lo, hi = _ends(tenant, seen, seen.est)
    return lo <= limit_ms <= hi


def _ends(tenant: TenantSummary, seen: Number, est: float) -> tuple[float, float]:
    """Ends of an interval; one that too few requests leave unknown is at least as far as the error of the model."""
    low, high = 1.0, 1.0
    if tenant.model_error is not None:
        low, high = time_range(tenant.model_error, solo=tenant.cell.solo, tail=True)
    return (
        est * min(low, 1.0) if seen.lo is None else seen.lo,
        est * max(high, 1.0) if seen.hi is None else seen.hi,
    )


def _chance(tenant: TenantSummary, seen: Number | None, limit_ms: float) -> float:
    """From the distance of the limit in deviations of the latency's logarithm; without an interval, from late ones."""
    assert tenant.slo is not None
    bounded = seen is not None and (tenant.cell.simulated or None not in (seen.lo, seen.hi))
    if seen is None or seen.est is None or not bounded:
        share = tenant.slo.share
        late = (1 - share.est) * share.n
        return 1 - beta_cdf(share.n - late + 0.5, late + 0.5, tenant.slo.quantile)
    side = _SIMULATED_SIDE if tenant.cell.simulated else _MEASURED_SIDE
    return chance_below(seen.est, _ends(tenant, seen, seen.est), limit_ms, side)


def chance_below(est: float, ends: tuple[float, float], limit: float, side: float) -> float:
    """Probability of a log-normal quantity being below a limit; the interval's ends lie this many deviations out."""
    away = math.log(limit / est)
    half = math.log(ends[1] / est) if away >= 0 else math.log(est / ends[0]) if ends[0] > 0 else math.inf
    if half <= 0:
        return float(away >= 0)
    return normal_cdf(side * away / half)


def _more_seconds(tenant: TenantSummary) -> float | None:
    rate = tenant.throughput_rps.est
    if tenant.slo is None or tenant.slo.needs_n is None or not rate:
        return None
    return max(0, tenant.slo.needs_n - tenant.slo.share.n) / rate


KEEPS_UP = 0.95
"""Least share of the arriving requests that a tenant serves in time to be called keeping up."""
_BY_CHANCE = 2.33
"""Deviations that one number of arrivals in a hundred falls short by."""
FAIRNESS_FLOOR = 0.5
"""Without objectives, a way to share is recommended only if no tenant makes less than half the progress of another."""
TOO_GOOD = 0.10
"""If the work exceeds that of all tenants alone by more than this, the solo trials are no measure.

Something else disturbed them, or cores that a neighbour keeps awake slept between the requests of a tenant alone.
"""

VISIBLE = 0.005
"""A gain that two decimals would show as 1.00 is ignored, however narrow its interval."""

Gain = Literal["more", "less", "same", "open", "unknown"]


def behind(arrived_rps: float | None, served_rps: float | None, measured_s: float) -> bool:
    """Whether a tenant serves fewer requests than arrive, by more than a burst at the end explains."""
    if arrived_rps is None or served_rps is None:
        return False
    if not served_rps:
        return True
    due = arrived_rps * measured_s
    return served_rps * measured_s < KEEPS_UP * due - _BY_CHANCE * math.sqrt(due)


@dataclass(frozen=True, slots=True)
class TenantInOption:
    """One tenant within an option."""

    tenant: str
    of: str
    slowdown: Number
    alone: MeasuredObjective | None
    shared: MeasuredObjective | None
    under: str = ""
    """Load and settings, if the tenant was measured under several."""
    rate_rps: float | None = None
    """The rate at which its requests arrive, as stated; None for a closed load."""
    arrived_rps: float | None = None
    """Requests that came, per second; None if they weren't counted."""
    arrived_alone_rps: float | None = None
    measured_s: float = 0.0
    """How long it was measured in this option."""
    measured_alone_s: float = 0.0
    served_rps: float | None = None
    served_alone_rps: float | None = None
    software: str | None = None
    """What executes its model; None if that is its own business."""
    generates: bool = False

    @property
    def rate_given(self) -> bool:
        """It does the same work however long its requests take."""
        return self.rate_rps is not None

    @property
    def overloaded(self) -> bool:
        """It serves fewer requests than arrive."""
        return self.rate_given and behind(self.arrived_rps or self.rate_rps, self.served_rps, self.measured_s)

    @property
    def overloaded_alone(self) -> bool:
        """The same without neighbours."""
        arrived = self.arrived_alone_rps or self.rate_rps
        return self.rate_given and behind(arrived, self.served_alone_rps, self.measured_alone_s)


def mix_name(standings: Sequence[TenantInOption]) -> str:
    """`bert + gpt`, `distilgpt2 x10`."""
    return together(tenant.of for tenant in standings)


@dataclass(frozen=True, slots=True)
class SharingOption:
    """One cell with neighbours."""

    mix: MixSummary
    standings: tuple[TenantInOption, ...]

    @property
    def cell(self) -> Cell:
        """Mix, sharing and conditions."""
        return self.mix.cell

    @property
    def work(self) -> Number:
        """Work done, where taking turns is 1 (STP)."""
        return self.mix.metrics["stp"]

    @property
    def delay(self) -> Number:
        """Mean time of requests beside each other, where alone is 1 (ANTT)."""
        return self.mix.metrics["antt"]

    @property
    def rates_given(self) -> bool:
        """The work is given by the rates of arrival; sharing changes only how long requests take."""
        return bool(self.standings) and all(tenant.rate_given for tenant in self.standings)

    @property
    def gauge(self) -> Number:
        """The figure that stands for the option: the delay if rates are given, else the work."""
        return self.delay if self.rates_given else self.work

    def as_good_as(self, other: "SharingOption", within: float) -> bool:
        """Its estimate is within this margin of the other's, and its interval reaches that far."""
        mine, theirs = self.gauge, other.gauge
        if mine.est is None or theirs.est is None:
            return False
        if self.rates_given:
            return mine.est <= theirs.est * (1 + within) and (mine.lo is None or mine.lo <= theirs.est)
        return mine.est >= theirs.est * (1 - within) and (mine.hi is None or mine.hi >= theirs.est)

    @property
    def trusted(self) -> bool:
        """Some trial passed every check."""
        return self.mix.trials_by_verdict.get("valid", 0) > 0

    @property
    def fair(self) -> bool:
        """No tenant is clearly starved."""
        fairness = self.mix.metrics["fairness"]
        most = fairness.est if fairness.hi is None else fairness.hi
        return most is None or most >= FAIRNESS_FLOOR

    @property
    def objectives(self) -> tuple[MeasuredObjective, ...]:
        """Objectives of the tenants that have any."""
        return tuple(tenant.shared for tenant in self.standings if tenant.shared is not None)

    @property
    def kept(self) -> Kept | None:
        """`kept` if all are, `missed` if any is; None without objectives."""
        answers = {objective.answer for objective in self.objectives}
        if not answers:
            return None
        return "missed" if "missed" in answers else "open" if "open" in answers else "kept"

    @property
    def headroom(self) -> float:
        """Headroom of the tenant with the least."""
        return min((objective.headroom for objective in self.objectives if objective.headroom is not None), default=0.0)

    @property
    def chance(self) -> float:
        """Probability that it keeps every objective; without any, that it does more work than taking turns.

        Errors of tenants count as independent. They are alike in fact, so that all are kept more often than this says.
        """
        if self.objectives:
            return math.prod(objective.chance for objective in self.objectives)
        work = self.work
        if work.est is None or work.lo is None or work.hi is None:
            return 0.5
        side = _SIMULATED_SIDE if self.cell.simulated else _MEASURED_SIDE
        return 1 - chance_below(work.est, (work.lo, work.hi), 1.0, side)

    @property
    def disturbed(self) -> bool:
        """The mix did more work than all its tenants alone."""
        return self.work.lo is not None and self.work.lo > len(self.standings) * (1 + TOO_GOOD)

    def gain(self, same_within: float) -> Gain:
        """Work compared with taking turns; `same` if the whole interval lies within that margin of 1."""
        work = self.work
        if work.est is None or work.lo is None or work.hi is None:
            return "unknown"
        if work.lo > 1 + VISIBLE:
            return "more"
        if work.hi < 1:
            return "less"
        return "same" if work.lo >= 1 - same_within and work.hi <= 1 + same_within else "open"
