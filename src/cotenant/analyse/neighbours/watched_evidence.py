"""What watched runs tell other verbs: times block by block for `compare`, and what each tenant's time is made of."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from cotenant.analyse.neighbours.influence import (
    BLOCKS_S,
    ENOUGH_BLOCKS,
    Influence,
    TenantSeries,
    factor_of,
    own_load,
)
from cotenant.analyse.neighbours.regression import FEWEST, LEVELS, Bools, Rows, block_levels, effects, levels_of
from cotenant.analyse.neighbours.totals import Floats
from cotenant.analyse.neighbours.watching import BASIS, Watched, WatchedTenant, grant_sentence, sentence
from cotenant.analyse.sharing.evidence import RequestWork, TenantEvidence
from cotenant.analyse.tabular import document
from cotenant.tenancy.interval import Estimate, Missing, Number
from cotenant.tenancy.records import TenantObservation
from cotenant.text import figure, listed, percent, times

COMMON_STEP_S = 10.0
SCARCE = 0.9
"""Use of cores or of the GPU's time from which they are short."""
WORTH_SAYING = 0.02


@dataclass(frozen=True, slots=True)
class WatchedRun:
    """A run of `watch`, and how its tenants shared the device."""

    run: str
    sharing: str
    watched: Watched


def block_evidence(runs: Sequence[WatchedRun]) -> tuple[list[TenantEvidence], list[str]]:
    """Times of the tenants that all runs have, in blocks and at equal own load; and what else differs, in sentences.

    What neighbours do isn't removed: a tenant that is slower because its neighbour is busier is slower.
    """
    by_name = [{series.tenant: series for series in run.watched.series if series.timed} for run in runs]
    names = [name for name in by_name[0] if all(name in series for series in by_name)]
    ways = list(dict.fromkeys(run.sharing for run in runs))
    notes = [] if len(ways) == 1 else [f"They shared the device by {' and then '.join(ways)}."]
    sharing = ways[0] if len(ways) == 1 else BASIS
    found: list[TenantEvidence] = []
    for name in names:
        series = [tenants[name] for tenants in by_name]
        blocks, problem = _blocks(series)
        if problem:
            notes.append(problem)
            continue
        if (rates := _rates(name, runs)) is not None:
            notes.append(rates)
        if series[0].measure != "latency":
            notes.append(f"Times of {name} are per token.")
        for run, levels in zip(runs, blocks, strict=True):
            found += [
                _observed(run, name, mix="+".join(names), sharing=sharing, block=block, level=level)
                for block, level in levels.items()
            ]
    return found, notes


def _blocks(runs: Sequence[TenantSeries]) -> tuple[list[dict[int, tuple[float, int]]], str]:
    """By run and block: the logarithm of the mean time at the load that all runs met, and requests; or a problem."""
    joined, of_run, t_s = _joined(runs)
    known = np.isfinite(joined.units) & np.isfinite(joined.time_s) & (joined.units > 0) & (joined.time_s > 0)
    kept, own = known.copy(), np.empty((known.size, 0))
    for number in range(1, len(runs)):
        own, narrow = own_load(joined, known & (of_run == 0), known & (of_run == number))
        kept &= narrow
    fewest = min(int((kept & (of_run == number)).sum()) for number in range(len(runs)))
    if fewest < FEWEST:
        return (
            [],
            f"{joined.tenant} was never under the same load of its own in all runs, so its times aren't compared.",
        )
    block = _block_numbers(t_s, of_run, kept)
    rows = Rows(joined.mean_s[kept], joined.units[kept], block[kept], own[kept], np.empty((int(kept.sum()), 0)), ())
    found: list[dict[int, tuple[float, int]]] = [{} for _ in runs]
    for place, level in block_levels(rows).items():
        inside = kept & (block == place)
        found[int(of_run[inside][0])][int(place)] = level, round(float(joined.units[inside].sum()))
    return found, ""


def _joined(runs: Sequence[TenantSeries]) -> tuple[TenantSeries, Floats, Floats]:
    """The runs one after the other, as if their intervals had one length; whose each is, and its time in its run."""

    def together(parts: Sequence[Floats]) -> Floats:
        return np.concatenate([part * COMMON_STEP_S / run.step_s for part, run in zip(parts, runs, strict=True)])

    series = replace(
        runs[0],
        step_s=COMMON_STEP_S,
        requests=together([run.requests for run in runs]),
        units=together([run.units for run in runs]),
        time_s=together([run.time_s for run in runs]),
        lengths=tuple(np.concatenate(lengths) for lengths in zip(*(run.lengths for run in runs), strict=False)),
    )
    of_run = np.concatenate([np.full(run.units.size, number, np.float64) for number, run in enumerate(runs)])
    return series, of_run, np.concatenate([np.arange(run.units.size) * run.step_s for run in runs])


def _block_numbers(t_s: Floats, of_run: Floats, kept: Bools) -> Floats:
    """Blocks of the first length of which every run has enough, or of that with most; no block is in two runs."""
    best: tuple[int, Floats] | None = None
    for length in (length for length in BLOCKS_S if length <= BLOCKS_S[0]):
        block = np.floor(t_s / length) + 1e6 * of_run
        fewest = min(np.unique(block[kept & (of_run == number)]).size for number in np.unique(of_run))
        if best is None or fewest > best[0]:
            best = fewest, block
        if fewest >= ENOUGH_BLOCKS:
            break
    assert best is not None
    return best[1]


def _observed(
    run: WatchedRun, name: str, *, mix: str, sharing: str, block: int, level: tuple[float, int]
) -> TenantEvidence:
    log, units = level
    software = next(tenant.software for tenant in run.watched.tenants if tenant.tenant == name)
    seen = TenantObservation(
        run=run.run, trial=block, block=block, mix=mix, sharing=sharing, settings="{}", load=BASIS,
        device=run.watched.device, simulated=False, solo=False, tenant=name, of=name, verdict="valid",
        failed_checks=(), n=max(units, 1), unfinished=0, throughput_rps=0.0, mean_latency_ns=1e9 * math.exp(log),
        window_s=COMMON_STEP_S,
    )  # fmt: skip
    started = datetime.fromtimestamp(run.watched.since_s, UTC).isoformat(timespec="milliseconds")
    return TenantEvidence(seen, RequestWork(software), BASIS, started_utc=started)


def _rates(name: str, runs: Sequence[WatchedRun]) -> str | None:
    """How often it was asked in each run, if that differs."""
    rates = [tenant.rate_rps for run in runs for tenant in run.watched.tenants if tenant.tenant == name]
    known = [rate for rate in rates if rate]
    if len(known) < len(runs) or max(known) <= 1.1 * min(known):
        return None
    came = " and then ".join(f"{figure(rate)}/s" for rate in known)
    return f"{name} served {came}; times are compared at loads of its own that all runs have."


# --- what each tenant's time is made of


@dataclass(frozen=True, slots=True)
class TenantCauses:
    """What slows a watched tenant, from its own load to its neighbours."""

    tenant: str
    own: Number
    """Time of a unit of work while it is busy itself, over that while it is not."""
    own_from: float
    """Its own load that counts as busy, per second."""
    neighbours: tuple[tuple[str, float], ...]
    """Neighbours and how much longer its work took because of them, averaged over the watched time."""
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WatchedExplanation:
    """Why watched servers were as slow as they were."""

    device: str
    tenants: tuple[TenantCauses, ...]

    def sentences(self) -> list[str]:
        """All of them, tenant by tenant."""
        return [text for tenant in self.tenants for text in tenant.sentences]

    def to_json(self) -> dict[str, Any]:
        """As `explain --json` prints it."""
        return document(basis=BASIS, device=self.device, tenants=self.tenants, sentences=self.sentences())


def explain_watched(watched: Watched) -> WatchedExplanation:
    """Own load, neighbours, what was short while they were busy, and whether granted parts were honoured."""
    return WatchedExplanation(watched.device, tuple(_causes(watched, tenant) for tenant in watched.tenants))


def mean_factor(watched: Watched, influence: Influence) -> float | None:
    """How much longer the tenant's work took because of the neighbour, averaged over it; None if that isn't known."""
    if not isinstance(influence.busy, Estimate):
        return None
    by_name = {series.tenant: series for series in watched.series}
    at = levels_of(by_name[influence.neighbour].activity).at
    units = by_name[influence.tenant].units
    known = np.isfinite(at) & np.isfinite(units)
    total = float(units[known].sum())
    if total <= 0:
        return None
    factors = np.ones(known.size)
    factors[at == LEVELS.index("busy")] = influence.busy.est
    if isinstance(influence.light, Estimate):
        factors[at == LEVELS.index("light")] = influence.light.est
    return float((factors * units)[known].sum() / total)


def alone_factor(watched: Watched, tenant: str) -> float:
    """How much longer a tenant's work took because of all its neighbours, as far as that is known."""
    mine = [influence for influence in watched.influences if influence.tenant == tenant]
    return math.prod(factor for influence in mine if (factor := mean_factor(watched, influence)))


def _causes(watched: Watched, tenant: WatchedTenant) -> TenantCauses:
    series = next(series for series in watched.series if series.tenant == tenant.tenant)
    mine = [influence for influence in watched.influences if influence.tenant == tenant.tenant]
    own, own_from = own_effect(series) if series.timed else (Missing("its times aren't published"), 0.0)
    costs = [(influence.neighbour, factor) for influence in mine if (factor := mean_factor(watched, influence))]
    said = [_usage(watched, tenant)]
    if isinstance(own, Estimate):
        kind = "takes longer" if (own.lo or 0) > 1 else "takes about as long"
        said.append(
            f"{tenant.tenant} {kind} while it is busy itself (more than {figure(own_from, 2)}/s): {times(own)}."
        )
    for influence in mine:
        factor = dict(costs).get(influence.neighbour)
        average = f" Over the watched time it cost {tenant.tenant} {percent(factor - 1)}." if (
            factor is not None and influence.verdict == "slows" and factor - 1 >= WORTH_SAYING
        ) else ""  # fmt: skip
        said.append(f"{sentence(influence)}{average}{_short(watched, influence)}")
    said += [grant_sentence(tenant, grant) for grant in tenant.grants]
    return TenantCauses(tenant.tenant, own, own_from, tuple(costs), tuple(text for text in said if text))


def own_effect(series: TenantSeries) -> tuple[Number, float]:
    """The tenant's time while it is busy itself over that while it isn't, free of drift; and what counts as busy."""
    rate = (series.requests if np.nansum(series.requests) > 0 else series.units) / series.step_s
    levels = levels_of(rate)
    known = np.isfinite(series.units) & np.isfinite(series.time_s) & (series.units > 0) & np.isfinite(levels.at)
    busy = levels.at == LEVELS.index("busy")
    if min(int((known & busy).sum()), int((known & ~busy).sum())) < FEWEST:
        return Missing(f"{series.tenant} had the same load all the time"), levels.busy_from
    t_s: Floats = np.arange(known.size) * np.float64(series.step_s)
    block = _block_numbers(t_s, np.zeros(known.size), known)
    rows = Rows(series.mean_s[known], series.units[known], block[known], np.empty((int(known.sum()), 0)),
                busy[known, None].astype(np.float64), (0,))  # fmt: skip
    return factor_of(effects(rows)[0], "once"), levels.busy_from


def _usage(watched: Watched, tenant: WatchedTenant) -> str:
    """Its mean time, and what it used of the device."""
    per = "a token" if tenant.token_ms is not None else "a request"
    mean = tenant.token_ms if tenant.token_ms is not None else tenant.mean_ms
    cores = "" if watched.cores is None else f" of {watched.cores}"
    used = [
        *([f"{figure(tenant.cores)}{cores} cores"] if tenant.cores is not None else ()),
        *([f"{percent(tenant.gpu_share)} of the GPU's time"] if tenant.gpu_share is not None else ()),
    ]
    timed = (
        f"{tenant.tenant} took {figure(mean)} ms for {per}" if mean is not None else f"{tenant.tenant} tells no times"
    )
    return f"{timed}{f' and used {listed(used)}' if used else ''}."


def _short(watched: Watched, influence: Influence) -> str:
    """What was short while a neighbour that slows was busy."""
    if influence.verdict != "slows":
        return ""
    neighbour = next(series for series in watched.series if series.tenant == influence.neighbour)
    busy = levels_of(neighbour.activity).at == LEVELS.index("busy")
    used = {
        kind: float(np.nansum([np.nanmean(series[busy]) for series in parts]))
        for kind, parts in (
            ("cores", [series.cores for series in watched.series if series.cores.size and busy.any()]),
            ("gpu", [series.gpu for series in watched.series if series.gpu.size and busy.any()]),
        )
        if parts and all(np.isfinite(series[busy]).any() for series in parts)
    }
    if watched.cores and used.get("cores", 0.0) >= SCARCE * watched.cores:
        return f" Cores were short: together they used {figure(used['cores'])} of {watched.cores} meanwhile."
    if used.get("gpu", 0.0) >= SCARCE:
        return f" The GPU's time was short: together their kernels ran for {percent(used['gpu'])} of it meanwhile."
    if used:
        return (
            " Neither cores nor the GPU's time were short, so it is caches, bandwidth or something that isn't watched."
        )
    return ""
