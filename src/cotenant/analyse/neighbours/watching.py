"""What was watched: each tenant's traffic, times and part of the device, and who slows whom."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cotenant.analyse.estimates.quantiles import needed_for
from cotenant.analyse.neighbours.influence import BLOCKS_S, FEWEST_BLOCKS, SMALL, Influence, TenantSeries, influences
from cotenant.analyse.neighbours.totals import Floats, Totals
from cotenant.analyse.tabular import Row, Tabular
from cotenant.tenancy.interval import Estimate
from cotenant.text import amount, duration, figure, listed, size, times

BASIS = "watched"
STEPS_S = (3.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0)
"""Lengths of the intervals that are compared."""
SHORTEST_STEP_S = 10.0
SHORT_S = 900.0
"""Up to this long, intervals are as short as the readings allow: there are few of them otherwise."""
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
CPU_S, GPU_S, ENERGY_J = OF_PROCESS = "cpu_s", "gpu_s", "energy_j"
"""Totals of a process: CPU time, time in which any of its kernels ran, and its part of the GPU's energy meanwhile."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A part of the device that a tenant was given, and what it got."""

    what: str
    """`cores`, `SMs`, `memory`, `time`."""
    by: str
    """What grants it: `cgroup`, `MPS`, `MIG 3g.20gb`, `cotenant serve`."""
    granted: float
    got: float | None
    """In the same unit; None if nothing here shows it."""
    unit: str
    shown_by: str = ""
    """What would show it."""


@dataclass(frozen=True, slots=True)
class TenantTotals:
    """Everything read of a tenant."""

    tenant: str
    software: str
    totals: Mapping[str, Totals]
    """By role: `requests`, `latency_s`, `latency_count`, `tokens_out`, `cpu_s`, ..."""
    buckets: Mapping[str, Mapping[float, float]] = field(default_factory=dict)
    """Requests (`latency`) or tokens (`token`) of the watched time that took at most so many seconds."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Process, user, container, address."""
    grants: tuple[Grant, ...] = ()


@dataclass(frozen=True, slots=True)
class WatchedTenant:
    """Figures of a tenant over the watched time; None where nothing tells."""

    tenant: str
    software: str
    requests: int | None
    rate_rps: float | None
    cv: float | None
    """Variation of the gaps between its requests, from counts per interval; 1 is Poisson."""
    mean_ms: float | None
    quantiles_ms: Mapping[str, float]
    """From the server's own buckets: interpolated within a bucket; of the first one, its bound."""
    first_bound_ms: float | None
    """The end of the first bucket: of a quantile there nothing else is known."""
    token_ms: float | None
    first_ms: float | None
    """Mean time to the first token."""
    tokens_in: float | None
    """Mean prompt."""
    tokens_out: float | None
    device_ms: float | None
    """Mean device time of a request, if the server counts it."""
    cores: float | None
    """CPU time per second."""
    gpu_share: float | None
    """Share of time with any of its kernels on the GPU."""
    restarts: int
    unknown_s: float
    """Time of which nothing was read."""
    grants: tuple[Grant, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Watched(Tabular):
    """The result of watching. As a table it has a row for each pair."""

    tenants: tuple[WatchedTenant, ...]
    influences: tuple[Influence, ...]
    series: tuple[TenantSeries, ...]
    """What each tenant did in each interval."""
    since_s: float
    """Start, in seconds since 1970."""
    minutes: float
    notes: tuple[str, ...]
    """What happened to the readings: gaps, restarts, servers that didn't answer."""
    unseen: tuple[str, ...]
    """What can't be seen from here, and what would show it."""
    device: str
    cores: int | None = None
    """Of the machine that the tenants run on; None if that isn't known."""
    folder: Path | None = None
    """The run it is stored as."""

    @cached_property
    def decided(self) -> bool:
        """Every pair has an answer."""
        return all(influence.verdict != "can't tell" for influence in self.influences)

    def rows(self) -> Sequence[Row]:
        """One row for each pair of tenants."""
        return [
            {
                "neighbour": influence.neighbour, "tenant": influence.tenant,
                "verdict": influence.verdict, "measure": influence.measure,
                "slowdown": influence.busy.est, "slowdown_lo": influence.busy.lo, "slowdown_hi": influence.busy.hi,
                "busy_from": influence.busy_from, "unit": influence.unit, "minutes": influence.minutes,
            }
            for influence in self.influences
        ]  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """As `watch --json` prints it."""
        return {
            "basis": BASIS, "device": self.device, "since_s": self.since_s, "minutes": self.minutes,
            "answer": answer_sentences(self), "tenants": self.tenants, "influences": self.influences,
            "notes": self.notes, "unseen": self.unseen,
        }  # fmt: skip


def watched_of(
    tenants: Sequence[TenantTotals], *, device: str, notes: Sequence[str] = (), unseen: Sequence[str] = (),
    looks: Literal["once", "often"] = "once", cores: int | None = None,
) -> Watched:  # fmt: skip
    """Everything that the readings tell."""
    spans = [(read.t_s[0], read.t_s[-1]) for tenant in tenants for read in tenant.totals.values() if read.t_s.size > 1]
    since = min((span[0] for span in spans), default=0.0)
    until = max((span[1] for span in spans), default=since)
    step = _step(tenants, until - since)
    edges = np.arange(since, until + 1e-6, step) if until - since >= 2 * step else np.array([since, max(until, since)])
    series = tuple(_series(tenant, edges, step) for tenant in tenants)
    return Watched(
        tenants=tuple(_tenant(tenant, edges, until - since) for tenant in tenants),
        influences=tuple(influences(series, looks=looks)) if edges.size > 3 else (),
        series=series,
        since_s=float(since),
        minutes=float(until - since) / 60,
        notes=tuple(notes),
        unseen=tuple(unseen),
        device=device,
        cores=cores,
    )


def _step(tenants: Sequence[TenantTotals], watched_s: float) -> float:
    """Long enough for two readings and for most requests to begin and end in the same interval."""
    periods = [read.period_s for tenant in tenants for read in tenant.totals.values() if read.t_s.size > 2]
    times = [mean for tenant in tenants if (mean := _mean(tenant, "latency_s", "latency_count"))]
    shortest = STEPS_S[0] if watched_s <= SHORT_S else SHORTEST_STEP_S
    least = max([shortest, *(2 * seconds for seconds in periods), *(3 * seconds for seconds in times)])
    return next((step for step in STEPS_S if step >= least), STEPS_S[-1])


def _series(tenant: TenantTotals, edges: Floats, step: float) -> TenantSeries:
    def of(role: str) -> Floats:
        read = tenant.totals.get(role)
        return np.full(edges.size - 1, np.nan) if read is None else read.within(edges)

    requests = of("requests")
    token = _grown(tenant, "token_count") > 0
    timed = ("token_s", "token_count") if token else ("latency_s", "latency_count")
    known = all(name in tenant.totals for name in timed)
    tokens_in, tokens_out = of("tokens_in"), of("tokens_out")
    if _grown(tenant, "tokens_out") > 0:
        activity, unit = np.nansum([np.nan_to_num(tokens_in), tokens_out], axis=0) / step, " tokens/s"
        activity = np.where(np.isfinite(tokens_out), activity, np.nan)
    elif "requests" in tenant.totals:
        activity, unit = requests / step, "/s"
    elif GPU_S in tenant.totals:
        activity, unit = 100 * of(GPU_S) / step, " % of the GPU's time"
    else:
        activity, unit = 100 * of(CPU_S) / step, " % of a core"
    with np.errstate(divide="ignore", invalid="ignore"):
        lengths = tuple(
            np.where(requests > 0, of(role) / requests, np.nan)
            for role in ("tokens_in", "tokens_out")
            if not token and role in tenant.totals
        )
    return TenantSeries(
        tenant.tenant, step, requests, of(timed[1]) if known else np.empty(0), of(timed[0]) if known else np.empty(0),
        "time per token" if token else "latency", activity, unit, lengths,
        of(CPU_S) / step if CPU_S in tenant.totals else np.empty(0),
        of(GPU_S) / step if GPU_S in tenant.totals else np.empty(0),
    )  # fmt: skip


def _tenant(tenant: TenantTotals, edges: Floats, seconds: float) -> WatchedTenant:
    totals = tenant.totals
    requests = _grown(tenant, "requests") if "requests" in totals else None
    known = next((totals[role] for role in ("requests", "tokens_out", CPU_S, GPU_S) if role in totals), None)
    unknown = 0.0 if known is None else sum(until - since for since, until in known.gaps())
    watched_s = max(seconds - unknown, 1e-9)

    def per_second(role: str) -> float | None:
        return _grown(tenant, role) / watched_s if role in totals else None

    def mean_ms(role: str, count: str) -> float | None:
        return None if (mean := _mean(tenant, role, count)) is None else 1e3 * mean

    latency = tenant.buckets.get("latency", {})
    return WatchedTenant(
        tenant=tenant.tenant,
        software=tenant.software,
        requests=None if requests is None else round(requests),
        rate_rps=per_second("requests"),
        cv=_cv(totals["requests"].within(edges)) if "requests" in totals else None,
        mean_ms=mean_ms("latency_s", "latency_count"),
        quantiles_ms={
            name: 1e3 * value for name, q in QUANTILES.items() if (value := bucket_quantile(latency, q)) is not None
        },
        first_bound_ms=1e3 * min(latency) if latency else None,
        token_ms=mean_ms("token_s", "token_count"),
        first_ms=mean_ms("first_s", "first_count"),
        tokens_in=_mean(tenant, "tokens_in", "requests"),
        tokens_out=_mean(tenant, "tokens_out", "requests"),
        device_ms=mean_ms("device_s", "requests"),
        cores=per_second(CPU_S),
        gpu_share=per_second(GPU_S),
        restarts=max((read.restarts for role, read in totals.items() if role not in OF_PROCESS), default=0),
        unknown_s=unknown,
        grants=tenant.grants,
        facts=tenant.facts,
    )


def bucket_quantile(buckets: Mapping[float, float], q: float) -> float | None:
    """A quantile of a histogram's counts, in seconds: interpolated, or the first bound if it lies below that.

    None with too few, or if it lies above the last bound.
    """
    bounds = sorted(buckets)
    total = max(buckets.values(), default=0.0)
    if total < needed_for(q):
        return None
    rank, below, count_below = q * total, 0.0, 0.0
    for bound in bounds:
        if buckets[bound] >= rank:
            if math.isinf(bound):
                return None
            inside = buckets[bound] - count_below
            if bound == bounds[0]:
                return bound
            return below + (bound - below) * ((rank - count_below) / inside if inside else 1.0)
        below, count_below = bound, buckets[bound]
    return None


def bucket_points(buckets: Mapping[float, float], points: int) -> list[float]:
    """Times at evenly spaced ranks of a histogram's counts, in seconds; what lies above the last bound counts as it."""
    total = max(buckets.values(), default=0.0)
    finite = sorted(bound for bound in buckets if math.isfinite(bound))
    if not total or not finite:
        return []
    ranks = (np.arange(points) + 0.5) / points * total
    below = [0.0, *(buckets[bound] for bound in finite)]
    return [float(value) for value in np.interp(ranks, below, [0.0, *finite])]


def _grown(tenant: TenantTotals, role: str) -> float:
    """What was added over the watched time, restarts left out."""
    read = tenant.totals.get(role)
    if read is None or read.t_s.size < 2:
        return 0.0
    added = np.diff(read.value)
    return float(added[added > 0].sum())


def _mean(tenant: TenantTotals, role: str, count: str) -> float | None:
    number = _grown(tenant, count)
    return _grown(tenant, role) / number if role in tenant.totals and number > 0 else None


def _cv(counts: Floats) -> float | None:
    """Of a renewal process, the variance of counts over their mean tends to the squared variation of the gaps.

    Neighbouring intervals are compared, so that a rate which changes over the day doesn't read as bursts.
    """
    known = counts[np.isfinite(counts)]
    if known.size < 8 or known.mean() <= 0:
        return None
    return math.sqrt(float((np.diff(known) ** 2).mean()) / 2 / float(known.mean()))


# --- who slows whom, in words: the answer first, then what would decide the rest

LONGEST_MIN = 7 * 24 * 60.0
"""Watching longer than this isn't advice."""


def answer_sentences(watched: Watched) -> list[str]:
    """The answer: who slows whom, and what would decide the rest."""
    if not watched.influences:
        return [_nothing(watched)]
    sentences = [sentence(influence) for influence in watched.influences if influence.verdict == "slows"]
    sentences += [sentence(influence) for influence in watched.influences if influence.verdict == "hardly"]
    open_pairs = [influence for influence in watched.influences if influence.verdict == "can't tell"]
    sentences += [sentence(influence) for influence in open_pairs]
    waiting = [influence.more_minutes for influence in open_pairs if influence.more_minutes is not None]
    if waiting and max(waiting) <= LONGEST_MIN:
        rest = "the rest" if len(sentences) > len(open_pairs) else "it"
        sentences.append(f"About {duration(60 * max(waiting))} more of such traffic would decide {rest}.")
    elif waiting:
        sentences.append("Watching alone would take more than a week to decide the rest.")
    return sentences


def sentence(influence: Influence) -> str:
    """A pair, as a sentence."""
    neighbour, tenant, busy = influence.neighbour, influence.tenant, influence.busy
    above = f"when it {_does(influence)} more than {_level(influence)}"
    against = "" if influence.reference == "idle" else ", against its lightest load: it was never idle"
    if influence.verdict == "slows":
        return f"{neighbour} slows {tenant} {times(busy)} {above}{against} ({influence.measure})."
    if influence.verdict == "hardly":
        return (
            f"{neighbour} hardly slows {tenant}: {times(busy)} {above}{against}, less than {SMALL - 1:.0%} in any case."
        )
    if isinstance(busy, Estimate):
        return f"Whether {neighbour} slows {tenant} isn't decided: {times(busy)} {above}{against}."
    if influence.experiment is not None:
        pauses, seconds = influence.experiment
        return (
            f"Whether {neighbour} slows {tenant} can't be told: {busy.reason}. Pausing {neighbour} "
            f"{pauses} times for {duration(seconds)}, as long apart, while this watches would tell."
        )
    return f"Whether {neighbour} slows {tenant} can't be told: {busy.reason}."


def grant_sentence(tenant: WatchedTenant, grant: Grant) -> str:
    """Whether a granted part was honoured."""
    form = size if grant.unit == "B" else figure
    unit = "" if grant.unit == "B" else f" {grant.unit}"
    if grant.got is None:
        return (
            f"{tenant.tenant} is granted {form(grant.granted)}{unit} ({grant.by}); what it gets can't be seen here"
            + (f": {grant.shown_by} would show it." if grant.shown_by else ".")
        )
    over = grant.got > 1.05 * grant.granted
    said = "more than" if over else "within"
    return f"{tenant.tenant} got {form(grant.got)}{unit}, {said} the {form(grant.granted)}{unit} granted ({grant.by})."


def note_sentences(watched: Watched) -> list[str]:
    """Gaps and restarts, then what else happened to the readings."""
    said = []
    for tenant in watched.tenants:
        if tenant.restarts:
            said.append(
                f"{tenant.tenant} restarted {amount(tenant.restarts, 'time')}; what it did around that isn't counted."
            )
        if tenant.unknown_s:
            said.append(f"Nothing was read of {tenant.tenant} for {duration(tenant.unknown_s)}.")
    return [*said, *watched.notes]


def _nothing(watched: Watched) -> str:
    timed = [tenant.tenant for tenant in watched.series if tenant.timed]
    if not watched.tenants:
        return "Nothing was watched."
    if len(watched.tenants) == 1:
        return f"Only {watched.tenants[0].tenant} was watched: name its neighbours too, to learn who slows whom."
    if not timed:
        names = listed([tenant.tenant for tenant in watched.tenants])
        return (
            f"None of {names} publishes times, so nothing tells who slows whom: name a URL with /metrics, "
            "or a histogram with --histogram."
        )
    return (
        f"{duration(60 * watched.minutes)} are too short to tell who slows whom: it takes at least "
        f"{duration(FEWEST_BLOCKS * min(BLOCKS_S))} of traffic that comes and goes."
    )


def _does(influence: Influence) -> str:
    return {"/s": "serves", " tokens/s": "handles"}.get(influence.unit, "uses")


def _level(influence: Influence) -> str:
    return f"{figure(influence.busy_from, 2)}{influence.unit}"
