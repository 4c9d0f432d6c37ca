"""Summarise the observations of a run: every tenant of every cell and every mix, each number with its interval."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import Any

import numpy as np

from cotenant.analyse.estimates.estimate import Estimate
from cotenant.analyse.estimates.intervals import mean_interval, positive_interval, ratio_interval
from cotenant.analyse.estimates.missing import Missing, Number
from cotenant.analyse.estimates.quantiles import QuantileEstimate, latency_quantiles
from cotenant.analyse.plain import plain
from cotenant.analyse.sharing.accuracy import FEWEST_REQUESTS, Accuracy, accuracy_of, unsteady
from cotenant.analyse.sharing.cells import Cell, by_block, counts, usable
from cotenant.analyse.sharing.model_error import inverse, of_metric, time_range, widened, widened_quantile
from cotenant.analyse.sharing.sharing_metrics import METRICS, over_blocks
from cotenant.analyse.sharing.short_windows import Agree, short_windows_agree
from cotenant.analyse.sharing.slo import Attainment, Metric, attainment
from cotenant.analyse.sharing.slowdown import (
    CurrentSlowdown,
    Solos,
    canary_us,
    current_slowdowns,
    device_ns,
    log_slowdowns,
    log_times,
    timed,
)
from cotenant.analyse.sharing.tokens import TokenSummary
from cotenant.tenancy.records import SCHEMA_VERSION, Int64s, ModelError, TenantObservation, TokenTimes, Verdict

__all__ = ["CurrentSlowdown", "MixSummary", "Summary", "TenantSummary", "current_slowdowns", "summarise"]

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
NS_PER_MS = 1e6
NO_TRIAL = "no usable trial"
NO_SOLO = "no block has both a usable shared trial and a usable solo trial"
BY_DEFINITION = "by definition"
JUDGED_ALONE_S = 1.0
"""Trials with a window of at least this length are judged on their own steadiness."""


@dataclass(frozen=True, slots=True)
class TenantSummary:
    """One tenant of one cell."""

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
    latency_ms: Mapping[str, QuantileEstimate]
    """p50, p90, p95, p99 of the requests of all usable trials."""
    needs_seconds: Mapping[str, float]
    """For each quantile that needs more requests: how many more seconds, at the rate seen."""
    mean_latency_ms: Number
    """Over completed requests."""
    slowdown: Number
    device_ms: Number
    device_slowdown: Number
    slo: Attainment | None
    """The deciding objective: one that is missed, else one that is open, else the one with the least headroom."""
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
    model_error: ModelError | None = None
    """Error of a simulated tenant, which its intervals include."""

    @property
    def slowdown_is_least(self) -> bool:
        """Requests that never completed are missing from the mean: the true slowdown is higher."""
        return self.unfinished > 0 and not self.cell.solo

    def to_json(self) -> dict[str, Any]:
        """Plain data; see `Summary.to_json`."""
        latency: dict[str, Any] = {name: quantile.to_json() for name, quantile in self.latency_ms.items()}
        for name, seconds in self.needs_seconds.items():
            latency[name]["needs_seconds"] = seconds
        row = self.cell.to_json() | {
            "tenant": self.tenant,
            "of": self.of,
            "blocks": self.blocks,
            "requests": self.requests,
            "unfinished": self.unfinished,
            "trials_by_verdict": dict(self.trials_by_verdict),
            "failed_checks": dict(self.failed_checks),
            "rate_rps": self.rate_rps,
            "throughput_rps": self.throughput_rps,
            "latency_ms": latency | {"mean": self.mean_latency_ms},
            "slowdown": self.slowdown,
            "slowdown_is_least": self.slowdown_is_least,
            "device_ms": self.device_ms,
            "device_slowdown": self.device_slowdown,
            "slo": None,
            "tokens": None if self.tokens is None else self.tokens.to_json(),
            "simulated_as": None
            if self.model_error is None
            else {
                "class": self.model_error.kind,
                "validated": self.model_error.validated,
                "error": self.model_error.sentence,
            },
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
                        "metric": one.metric,
                        "objective_ms": limit_ms,
                        "quantile": one.quantile,
                        "attainment": one.share,
                        "answer": one.answer,
                    }
                    for limit_ms, one in self.objectives
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
    """Every tenant and every mix of one or several runs."""

    tenants: tuple[TenantSummary, ...]
    mixes: tuple[MixSummary, ...]
    block_seconds: Mapping[str, float]
    """By run: measured seconds of one block, all its trials together; the least that one more block would cost."""
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
        row = {
            "schema_version": SCHEMA_VERSION,
            "tenants": self.tenants,
            "mixes": self.mixes,
            "block_seconds": dict(self.block_seconds),
            "accuracy": self.accuracy,
            "short_windows": None if self.windows is None else self.windows.to_json(),
            "doubts": list(self.doubts),
        }
        clean: dict[str, Any] = plain(row)
        return clean


def summarise(observations: Iterable[TenantObservation]) -> Summary:
    """Summarise one or many runs, each separately.

    Observations of one tenant of one cell must be consecutive; their raw latencies are released as soon as the next
    tenant's arrive, so memory holds one tenant's at a time.
    """
    groups: dict[tuple[Cell, str], list[TenantObservation]] = {}
    quantiles: dict[tuple[Cell, str], Mapping[str, QuantileEstimate]] = {}
    solos, device_solos, calm = baselines = Solos(), Solos(device_ns), Solos(canary_us)
    raw: list[tuple[Int64s, int]] = []
    tokens: list[tuple[TokenTimes, int]] = []
    token_quantiles: dict[tuple[Cell, str], _TokenQuantiles] = {}
    current: tuple[Cell, str] | None = None
    for seen in filter(counts, observations):
        key = Cell.of(seen), seen.role  # one row for all members of a group: they replicate each other here
        if key != current:
            if current is not None:
                quantiles[current] = _quantiles_ms(raw)
                token_quantiles[current] = _token_quantiles(tokens)
            if key in groups:
                raise ValueError(f"observations of {seen.tenant} in {seen.mix} are not consecutive")
            raw, tokens, current = [], [], key
        if usable(seen) and seen.latency_ns is not None:
            raw.append((seen.latency_ns, seen.unfinished))
        if usable(seen) and seen.token_times is not None:
            tokens.append((seen.token_times, seen.unfinished))
        light = replace(seen, latency_ns=None, token_times=None)
        groups.setdefault(key, []).append(light)
        solos.add(light)
        device_solos.add(light)
        calm.add(light)
    if current is not None:
        quantiles[current] = _quantiles_ms(raw)
        token_quantiles[current] = _token_quantiles(tokens)
    tenants = {
        key: _tenant(key, groups[key], (quantiles[key], token_quantiles[key]), baselines) for key in sorted(groups)
    }
    cells: dict[Cell, dict[str, list[TenantObservation]]] = {}
    for cell, tenant in tenants:
        cells.setdefault(cell, {})[tenant] = groups[cell, tenant]
    mixes = tuple(
        _mix(cell, members, {name: tenants[cell, name].slowdown for name in members}, solos, calm)
        for cell, members in cells.items()
    )
    block_seconds = _block_seconds(groups.values())
    return Summary(
        tuple(tenants.values()),
        mixes,
        block_seconds,
        _accuracy(tenants, groups, solos, block_seconds),
        short_windows_agree(timed(group) for group in groups.values()),
        tuple(_doubts(tenants, groups, solos)),
    )


def _accuracy(
    tenants: Mapping[tuple[Cell, str], TenantSummary],
    groups: Mapping[tuple[Cell, str], Sequence[TenantObservation]],
    solos: Solos,
    block_seconds: Mapping[str, float],
) -> dict[str, Accuracy]:
    found = {}
    for run, seconds in block_seconds.items():
        shared = [key for key in groups if key[0].run == run and not key[0].solo]
        alone = [key for key in groups if key[0].run == run and key[0].solo]
        accuracy = accuracy_of(
            [number.relative_half_width for key in shared if isinstance(number := tenants[key].slowdown, Estimate)],
            [log_slowdowns(groups[key], solos) for key in shared],
            [log_times(groups[key]) for key in alone],
            seconds,
        )
        if accuracy is not None:
            found[run] = accuracy
    return found


def _doubts(
    tenants: Mapping[tuple[Cell, str], TenantSummary],
    groups: Mapping[tuple[Cell, str], Sequence[TenantObservation]],
    solos: Solos,
) -> Iterator[str]:
    """Doubts about cells of short windows, which are not judged one by one."""
    for key, group in groups.items():
        if min(seen.window_s for seen in group) >= JUDGED_ALONE_S:
            continue
        cell, tenant = key
        where = f"{tenant} in {cell.mix} ({cell.sharing})"
        if 0 < tenants[key].requests < FEWEST_REQUESTS:
            yield f"{where} served only {tenants[key].requests} requests in all windows: measure longer."
        if not cell.solo and (kind := unsteady(log_slowdowns(group, solos))):
            yield f"The slowdown of {where} was not steady over the run: {kind}."


def _quantiles_ms(raw: Sequence[tuple[Int64s, int]]) -> Mapping[str, QuantileEstimate]:
    found = latency_quantiles([values for values, _ in raw], list(QUANTILES.values()), [lost for _, lost in raw])
    return {name: _in_ms(found[q]) for name, q in QUANTILES.items()}


_TokenQuantiles = tuple[Mapping[str, QuantileEstimate], ...] | None


def _token_quantiles(raw: "Sequence[tuple[TokenTimes, int]]") -> _TokenQuantiles:
    """Times to first token, per output token (a request that never completed is late) and between tokens."""
    if not raw:
        return None
    return (
        _quantiles_ms([(times.ttft_ns, lost) for times, lost in raw]),
        _quantiles_ms([(times.tpot_ns, lost) for times, lost in raw]),
        _quantiles_ms([(times.itl_ns, 0) for times, _ in raw]),
    )


def _tokens_per_s(used: Sequence[TenantObservation]) -> Number:
    def rate(seen: TenantObservation) -> float | None:
        return seen.tokens_out / seen.n * seen.throughput_rps if seen.tokens_out is not None and seen.n else None

    return _mean(used, rate, "no tokens")


def _token_summary(
    quantiles: tuple[Mapping[str, QuantileEstimate], ...], used: Sequence[TenantObservation]
) -> TokenSummary:
    ttft, tpot, itl = quantiles
    return TokenSummary(ttft, tpot, itl, _tokens_per_s(used))


def _in_ms(quantile: QuantileEstimate) -> QuantileEstimate:
    est, lo, hi = (None if end is None else end / NS_PER_MS for end in (quantile.est, quantile.lo, quantile.hi))
    return replace(quantile, est=est, lo=lo, hi=hi)


def _tenant(
    key: tuple[Cell, str],
    group: Sequence[TenantObservation],
    both: "tuple[Mapping[str, QuantileEstimate], _TokenQuantiles]",
    baselines: tuple[Solos, Solos, Solos],
) -> TenantSummary:
    (cell, tenant), (solos, device_solos, calm) = key, baselines
    quantiles, token_quantiles = both
    used = [seen for seen in group if usable(seen)]
    requests, unfinished = sum(seen.n for seen in used), sum(seen.unfinished for seen in used)
    seconds = sum(seen.window_s for seen in used)
    rate = (requests + unfinished) / seconds if seconds else 0.0
    needs = {
        name: (found.needs_n - found.n) / rate
        for name, found in quantiles.items()
        if found.needs_n is not None and rate > 0
    }
    objectives, goodput = _objectives(used)
    limit_ms, slo = min(objectives, key=lambda one: _urgency(one[1]), default=(None, None))
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
        latency_ms=quantiles,
        needs_seconds=needs,
        mean_latency_ms=_mean(used, lambda seen: seen.mean_latency_ns / NS_PER_MS if seen.n else None),
        slowdown=_slowdown(cell, group, solos, calm),
        device_ms=_mean(
            used,
            lambda seen: None if seen.mean_device_ns is None else seen.mean_device_ns / NS_PER_MS,
            "no device time",
        ),
        device_slowdown=_slowdown(cell, group, device_solos),
        slo=slo,
        slo_ms=limit_ms,
        objectives=objectives,
        tokens=None if token_quantiles is None else _token_summary(token_quantiles, used),
        goodput_rps=goodput,
        rate_rps=next((seen.rate_rps for seen in group if seen.rate_rps is not None), None),
        model_error=group[0].model_error,
    )
    return found if found.model_error is None else _with_model_error(found, found.model_error)


def _with_model_error(found: TenantSummary, error: ModelError) -> TenantSummary:
    """The same, with each interval widened by the simulation's error."""
    solo = found.cell.solo
    times, tails = time_range(error, solo=solo), time_range(error, solo=solo, tail=True)
    asked = math.inf if found.rate_rps is None else found.rate_rps
    return replace(
        found,
        throughput_rps=widened(found.throughput_rps, inverse(times), most=asked),
        latency_ms={
            name: widened_quantile(one, times if name == "p50" else tails) for name, one in found.latency_ms.items()
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
    def wide(quantiles: Mapping[str, QuantileEstimate]) -> Mapping[str, QuantileEstimate]:
        return {name: widened_quantile(one, times if name == "p50" else tails) for name, one in quantiles.items()}

    return TokenSummary(
        wide(found.ttft_ms), wide(found.tpot_ms), wide(found.itl_ms), widened(found.tokens_per_s, inverse(times))
    )


def _mean(
    used: Sequence[TenantObservation], value_of: Callable[[TenantObservation], float | None], absent: str = "no request"
) -> Number:
    """Typical value over blocks, each block one replicate."""
    if not used:
        return Missing(NO_TRIAL)
    values = [(seen.block, value) for seen in used if (value := value_of(seen)) is not None and isfinite(value)]
    return positive_interval(by_block(values)) if values else Missing(absent)


def _slowdown(cell: Cell, group: Sequence[TenantObservation], solos: Solos, calm: Solos | None = None) -> Number:
    logs = log_slowdowns(group, solos, calm)
    if not logs:
        return Missing(NO_SOLO if any(usable(seen) for seen in group) else NO_TRIAL)
    if cell.solo:
        return Estimate(1.0, 1.0, 1.0, len(logs), BY_DEFINITION)
    return ratio_interval(list(logs.values()))


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


def _urgency(one: Attainment) -> tuple[int, float]:
    return ("missed", "undecided", "met").index(one.answer), one.share.est - one.quantile


def _mix(
    cell: Cell,
    members: Mapping[str, Sequence[TenantObservation]],
    slowdown: Mapping[str, Number],
    solos: Solos,
    calm: Solos,
) -> MixSummary:
    trials = {seen.trial: seen for group in members.values() for seen in group}.values()
    verdicts: Counter[str] = Counter(seen.verdict for seen in trials)
    slowdowns = [log_slowdowns(group, solos, calm) for group in members.values()]
    blocks = sorted(set.intersection(*(set(logs) for logs in slowdowns)))
    return MixSummary(
        cell=cell,
        tenants=tuple(members),
        blocks=len(blocks),
        slowdown=slowdown,
        metrics=_metrics(
            cell,
            [[logs[block] for logs in slowdowns] for block in blocks],
            verdicts,
            [error for group in members.values() if (error := group[0].model_error) is not None],
        ),
        verdict=_verdict(verdicts),
        failed_checks=Counter(check for seen in trials for check in sorted(set(seen.failed_checks))),
        trials_by_verdict=verdicts,
    )


def _metrics(
    cell: Cell,
    logs_by_block: Sequence[Sequence[float]],
    verdicts: Mapping[str, int],
    errors: Sequence[ModelError],
) -> dict[str, Number]:
    if not logs_by_block:
        reason = NO_TRIAL if _verdict(verdicts) == "invalid" else NO_SOLO
        return {name: Missing(reason) for name in METRICS}
    if cell.solo:
        return {name: Estimate(1.0, 1.0, 1.0, len(logs_by_block), BY_DEFINITION) for name in METRICS}
    progress = [np.exp(-np.asarray(logs)) for logs in logs_by_block]
    found: dict[str, Number] = {name: over_blocks(name, progress) for name in METRICS}
    if not errors:
        return found
    # No tenant is faster in company than alone, so tenants do at most what they would do on a device each.
    most = {"fairness": 1.0, "jain": 1.0, "stp": float(len(errors))}
    least = {"antt": 1.0}
    return {
        name: widened(number, of_metric(name, errors), least=least.get(name, 0.0), most=most.get(name, inf))
        for name, number in found.items()
    }


def _verdict(verdicts: Mapping[str, int]) -> Verdict:
    total = sum(verdicts.values())
    if verdicts.get("valid", 0) == total:
        return "valid"
    return "invalid" if verdicts.get("invalid", 0) == total else "unstable"


def _block_seconds(groups: Iterable[Sequence[TenantObservation]]) -> dict[str, float]:
    windows = {(seen.run, seen.block, seen.trial): seen.window_s for group in groups for seen in group}
    totals: dict[str, dict[int, float]] = {}
    for (run, block, _), seconds in windows.items():
        blocks = totals.setdefault(run, {})
        blocks[block] = blocks.get(block, 0.0) + seconds
    return {run: sum(blocks.values()) / len(blocks) for run, blocks in sorted(totals.items())}
