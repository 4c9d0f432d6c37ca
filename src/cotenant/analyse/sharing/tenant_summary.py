"""Summarise a tenant of a cell: throughput, latency, slowdown, objectives and tokens, each with its interval."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from cotenant.analyse.estimates.autocorrelation import Common
from cotenant.analyse.estimates.intervals import mean_interval, positive_interval, ratio_interval
from cotenant.analyse.estimates.quantiles import latency_quantiles
from cotenant.analyse.sharing.cells import Cell, by_block, usable
from cotenant.analyse.sharing.model_error import inverse, time_range, widened, widened_quantile
from cotenant.analyse.sharing.slo import Attainment, Metric, attainment
from cotenant.analyse.sharing.slowdown import Solos, canary_us, device_ns, log_slowdowns
from cotenant.analyse.sharing.summary import QUANTILES, TenantSummary, TokenSummary
from cotenant.tenancy.interval import Estimate, Missing, Number
from cotenant.tenancy.records import Int64s, ModelErrorRecord, TenantObservation

NS_PER_MS = 1e6
NO_TRIAL = "no usable trial"
NO_SOLO = "no block has both a usable shared trial and a usable solo trial"
BY_DEFINITION = "by definition"


class Baselines(NamedTuple):
    """Solo trials by block, against which shared ones are compared."""

    time: Solos
    device: Solos
    calm: Solos
    """Of the canary: the speed of the core."""

    @classmethod
    def of(cls, observations: Iterable[TenantObservation]) -> "Baselines":
        """Gather the solo trials."""
        found = cls(Solos(), Solos(device_ns), Solos(canary_us))
        for seen in observations:
            for solos in found:
                solos.add(seen)
        return found


Quantiles = Mapping[str, Number]


class Times(NamedTuple):
    """Quantiles of a tenant's raw times, in ms."""

    latency: Quantiles
    tokens: tuple[Quantiles, Quantiles, Quantiles] | None
    """To the first token, per output token (a request that never completed is late), and between tokens."""

    @classmethod
    def of(cls, group: Iterable[TenantObservation]) -> "Times":
        """Of the usable trials that have raw times."""
        used = [seen for seen in group if usable(seen)]
        latency = [(seen.latency_ns, seen.unfinished) for seen in used if seen.latency_ns is not None]
        tokens = [(seen.token_times, seen.unfinished) for seen in used if seen.token_times is not None]
        if not tokens:
            return cls(_quantiles_ms(latency), None)
        return cls(
            _quantiles_ms(latency),
            (
                _quantiles_ms([(times.ttft_ns, lost) for times, lost in tokens]),
                _quantiles_ms([(times.tpot_ns, lost) for times, lost in tokens]),
                _quantiles_ms([(times.itl_ns, 0) for times, _ in tokens]),
            ),
        )


def _quantiles_ms(raw: Sequence[tuple[Int64s, int]]) -> Quantiles:
    found = latency_quantiles([values for values, _ in raw], list(QUANTILES.values()), [lost for _, lost in raw])
    return {
        name: number.scaled(1 / NS_PER_MS) if isinstance(number := found[q], Estimate) else number
        for name, q in QUANTILES.items()
    }


def tenant_summary(
    cell: Cell,
    tenant: str,
    group: Sequence[TenantObservation],
    times: Times,
    baselines: Baselines,
    *,
    common: Common | None,
) -> TenantSummary:
    """Summarise its observations in all blocks; ``common``: the correlation of the run's blocks."""
    used = [seen for seen in group if usable(seen)]
    requests, unfinished = sum(seen.n for seen in used), sum(seen.unfinished for seen in used)
    seconds = sum(seen.window_s for seen in used)
    rate = (requests + unfinished) / seconds if seconds else 0.0
    needs = {
        name: (found.needs_n - found.n) / rate
        for name, found in times.latency.items()
        if found.needs_n is not None and rate > 0
    }
    objectives, goodput = _objectives(used)
    limit_ms, slo = min(objectives, key=lambda pair: _urgency(pair[1]), default=(None, None))
    found = TenantSummary(
        cell=cell,
        tenant=tenant,
        of=group[0].of,
        blocks=len({seen.block for seen in used}),
        requests=requests,
        unfinished=unfinished,
        trials_by_verdict=Counter(seen.verdict for seen in group),
        failed_checks=Counter(check for seen in group for check in sorted(set(seen.failed_checks))),
        throughput_rps=_mean(used, lambda seen: seen.throughput_rps),
        latency_ms=times.latency,
        needs_seconds=needs,
        mean_latency_ms=_mean(used, lambda seen: seen.mean_latency_ns / NS_PER_MS if seen.n else None),
        slowdown=_slowdown(cell, group, common, baselines.time, baselines.calm),
        device_ms=_mean(
            used,
            lambda seen: None if seen.mean_device_ns is None else seen.mean_device_ns / NS_PER_MS,
            "no device time",
        ),
        device_slowdown=_slowdown(cell, group, common, baselines.device),
        slo=slo,
        slo_ms=limit_ms,
        objectives=objectives,
        tokens=None if times.tokens is None else TokenSummary(*times.tokens, _mean(used, _tokens_per_s, "no tokens")),
        goodput_rps=goodput,
        rate_rps=next((seen.rate_rps for seen in group if seen.rate_rps is not None), None),
        arrived_rps=rate or None,
        model_error=group[0].model_error,
        software=group[0].software,
    )
    return found if found.model_error is None else _with_model_error(found, found.model_error)


def _with_model_error(found: TenantSummary, error: ModelErrorRecord) -> TenantSummary:
    """The same, with each interval widened by the simulation's error."""
    solo = found.cell.solo
    times, tails = time_range(error, solo=solo), time_range(error, solo=solo, tail=True)
    asked = math.inf if found.rate_rps is None else found.rate_rps
    return replace(
        found,
        throughput_rps=widened(found.throughput_rps, inverse(times), most=asked),
        latency_ms={
            name: widened_quantile(quantile, times if name == "p50" else tails)
            for name, quantile in found.latency_ms.items()
        },
        mean_latency_ms=widened(found.mean_latency_ms, times),
        slowdown=found.slowdown if solo else widened(found.slowdown, error.slowdown, least=1.0),
        device_ms=widened(found.device_ms, times),
        device_slowdown=found.device_slowdown if solo else widened(found.device_slowdown, error.slowdown, least=1.0),
        goodput_rps=None if found.goodput_rps is None else widened(found.goodput_rps, inverse(times), most=asked),
        tokens=None if found.tokens is None else _tokens_with_model_error(found.tokens, times, tails),
    )


def _tokens_with_model_error(
    found: TokenSummary, times: tuple[float, float], tails: tuple[float, float]
) -> TokenSummary:
    def wide(quantiles: Quantiles) -> Quantiles:
        return {
            name: widened_quantile(quantile, times if name == "p50" else tails) for name, quantile in quantiles.items()
        }

    return TokenSummary(
        wide(found.ttft_ms), wide(found.tpot_ms), wide(found.itl_ms), widened(found.tokens_per_s, inverse(times))
    )


def _tokens_per_s(seen: TenantObservation) -> float | None:
    return seen.tokens_out / seen.n * seen.throughput_rps if seen.tokens_out is not None and seen.n else None


def _mean(
    used: Sequence[TenantObservation], value_of: Callable[[TenantObservation], float | None], absent: str = "no request"
) -> Number:
    """Typical value over blocks, each block a replicate."""
    if not used:
        return Missing(NO_TRIAL)
    values = [(seen.block, value) for seen in used if (value := value_of(seen)) is not None and math.isfinite(value)]
    return positive_interval(by_block(values)) if values else Missing(absent)


def _slowdown(
    cell: Cell, group: Sequence[TenantObservation], common: Common | None, solos: Solos, calm: Solos | None = None
) -> Number:
    logs = log_slowdowns(group, solos, calm)
    if not logs:
        return Missing(NO_SOLO if any(usable(seen) for seen in group) else NO_TRIAL)
    if cell.solo:
        return Estimate(1.0, 1.0, 1.0, len(logs), BY_DEFINITION)
    return ratio_interval(list(logs.values()), common=common)


def _objectives(
    used: Sequence[TenantObservation],
) -> tuple[tuple[tuple[float, Attainment], ...], Number | None]:
    """Each objective with its limit, and requests per second within all of them."""
    counted = [seen for seen in used if seen.n + seen.unfinished > 0]
    counts: dict[tuple[Metric, float, float], list[tuple[int, int]]] = {}
    for seen in counted:
        due = seen.n + seen.unfinished
        if seen.slo_met is not None and seen.slo_ms is not None:
            latency: tuple[Metric, float, float] = "latency", seen.slo_ms, seen.slo_quantile or QUANTILES["p99"]
            counts.setdefault(latency, []).append((seen.slo_met, due))
        for goal in seen.token_goals:
            counts.setdefault((goal.metric, goal.limit_ms, goal.quantile), []).append((goal.met, due))
    found = []
    for (metric, limit_ms, quantile), rows in counts.items():
        share = attainment([met for met, _ in rows], [due for _, due in rows], quantile)
        found.append((limit_ms, replace(share, metric=metric)))
    if not found:
        return (), None
    within = [(seen, seen.slo_met if seen.all_met is None else seen.all_met) for seen in counted]
    good = [(seen.block, met / seen.window_s) for seen, met in within if met is not None]
    return tuple(found), mean_interval(by_block(good))


def _urgency(attainment: Attainment) -> tuple[int, float]:
    return ("missed", "undecided", "met").index(attainment.answer), attainment.share.est - attainment.quantile
