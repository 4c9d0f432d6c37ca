"""What limits a tenant that has the device to itself, from its work, its time and the device's measured peaks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cotenant.analyse.decision.option import KEEPS_UP
from cotenant.analyse.estimates.intervals import mean_interval
from cotenant.analyse.sharing.cells import by_block, usable
from cotenant.analyse.sharing.evidence import Peaks, TenantEvidence
from cotenant.analyse.tabular import fields_of
from cotenant.tenancy.device_names import DeviceName
from cotenant.tenancy.interval import Estimate, Missing, Number
from cotenant.text import percent

Bound = Literal[
    "compute", "memory bandwidth", "cache", "launch or host overhead", "capacity", "waiting for the load",
    "waiting elsewhere", "unknown",
]  # fmt: skip
Sureness = Literal["clear", "likely", "unclear"]

NEAR_PEAK, FAR_FROM_PEAK, AT_PEAK = 0.4, 0.15, 0.6
"""Shares of a measured peak: at the first it is the limit, at the last clearly so; below the second it is not."""
FROM_CACHE = 1.05
"""More bytes than the memory can deliver must come from a cache."""
STRANGERS = 0.10
"""Share of the device taken by other processes at which they can have delayed a tenant."""
IDLE = 0.3
"""A tenant that is idle for this share of the time waits for its load."""
BUSY_CORE = 0.5
"""A tenant that uses less of a core while it serves waits for something else."""
WAITS = 0.5
"""Voluntary context switches per request at which a tenant waits by itself rather than being preempted."""
FULL = 0.9
"""Share of the device's memory at which capacity becomes the limit."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A tenant alone, at a load and setting."""

    of: str
    load: str
    settings: str
    bound: Bound
    while_serving: Bound
    """The same while it has something to do."""
    sure: Sureness
    reason: str
    """A clause that quotes its numbers."""
    service_ms: Number
    cores: float | None
    """CPU cores used while serving; on other devices the share of time that the device works."""
    compute_share: float | None
    """Share of the peak for its number format and threads."""
    bandwidth_share: float | None
    """Share of the measured memory bandwidth, if all its bytes came from memory."""
    busy: float | None
    """Share of time spent serving."""
    stages: dict[str, float]
    """Share of each stage in the service time."""

    @property
    def bytes_demand(self) -> float:
        """Share of the memory bandwidth used, averaged over time; 0 if served from a cache or unknown."""
        if self.while_serving == "cache" or self.bandwidth_share is None:
            return 0.0
        return self.bandwidth_share * (1.0 if self.busy is None else self.busy)

    @property
    def core_demand(self) -> float:
        """Cores kept busy, averaged over time."""
        return (self.cores or 0.0) * (1.0 if self.busy is None else self.busy)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return fields_of(self, of="tenant")


def bindings(evidence: Sequence[TenantEvidence], peaks: Peaks) -> list[Binding]:
    """Limits of every tenant alone, at each load and setting."""
    groups: dict[tuple[str, str, str], list[TenantEvidence]] = {}
    for item in evidence:
        if item.seen.solo:
            groups.setdefault((item.seen.of, item.seen.load, item.seen.settings), []).append(item)
    return [_binding(key, group, peaks) for key, group in sorted(groups.items())]


@dataclass(frozen=True, slots=True)
class _Measured:
    """Means over the blocks of a tenant alone."""

    cores: float | None
    compute_share: float | None
    bandwidth_share: float | None
    on_cpu: bool
    starved: bool
    """It was denied its cores; shares are then those of its CPU time."""
    item: TenantEvidence
    peaks: Peaks


def _binding(key: tuple[str, str, str], group: Sequence[TenantEvidence], peaks: Peaks) -> Binding:
    of, load, settings = key
    used = [item for item in group if usable(item.seen) and item.seen.n > 0]
    service = _mean(used, lambda item: (item.service_ns or item.seen.mean_latency_ns) / 1e6)
    if not isinstance(service, Estimate):
        return Binding(
            of, load, settings, "unknown", "unknown", "unclear", "no usable trial", service, None, None, None, None, {}
        )
    found = _measured(used, service.est / 1e3, peaks)
    busy = _mean(used, lambda item: item.seen.throughput_rps * (item.service_ns or item.seen.mean_latency_ns) / 1e9)
    serving, sure, reason = _while_serving(found)
    idle = 1 - busy.est if isinstance(busy, Estimate) else 0.0
    unserved = sum(item.seen.unfinished for item in used) / sum(item.seen.n + item.seen.unfinished for item in used)
    waits = used[0].open and idle >= IDLE and unserved <= 1 - KEEPS_UP
    if waits:
        reason = f"it is idle for {percent(idle)} of the time; while it serves, {reason}"
    totals: dict[str, float] = {}
    for item in used:
        for stage, duration in item.stages_ns.items():
            totals[stage] = totals.get(stage, 0.0) + duration
    whole = sum(totals.values())
    return Binding(
        of=of,
        load=load,
        settings=settings,
        bound="waiting for the load" if waits and serving != "capacity" else serving,
        while_serving=serving,
        sure="clear" if waits else sure,
        reason=reason,
        service_ms=service,
        cores=found.cores,
        compute_share=found.compute_share,
        bandwidth_share=found.bandwidth_share,
        busy=min(busy.est, 1.0) if isinstance(busy, Estimate) else None,
        stages={stage: duration / whole for stage, duration in totals.items()} if whole else {},
    )


def _measured(used: Sequence[TenantEvidence], service_s: float, peaks: Peaks) -> _Measured:
    item = used[0]
    work = item.work
    device = _mean(
        used, lambda tenant: None if tenant.seen.mean_device_ns is None else tenant.seen.mean_device_ns / 1e9
    )
    on_cpu = DeviceName(item.seen.device).on_cpu
    cores = device.est / service_s if isinstance(device, Estimate) else None
    starved = on_cpu and cores is not None and cores < BUSY_CORE * (work.threads or 1) and not _waits_itself(used)
    if starved and cores is not None:
        service_s *= cores / (work.threads or 1)
    part = min(1.0, work.threads / peaks.cores) if work.threads and peaks.cores else 1.0
    flops_peak = peaks.flops_per_s.get(work.dtype or "")
    compute = None
    if work.flops_per_request is not None and flops_peak:
        compute = work.flops_per_request / service_s / (flops_peak * part)
    bandwidth = None
    if work.bytes_per_request is not None and peaks.bytes_per_s:
        bandwidth = work.bytes_per_request / service_s / peaks.bytes_per_s
    if compute is None and work.flops_per_request == 0:
        compute = 0.0
    return _Measured(
        cores=cores,
        compute_share=compute,
        bandwidth_share=bandwidth,
        on_cpu=on_cpu,
        starved=starved,
        item=item,
        peaks=peaks,
    )


def _waits_itself(used: Sequence[TenantEvidence]) -> bool:
    """It yields its core voluntarily, or nothing else could have taken it."""
    asked = [item.switches_voluntary / max(1, item.seen.n) for item in used if item.switches_voluntary is not None]
    taken = [item.foreign_share for item in used if item.foreign_share is not None]
    stolen = [item.steal_share for item in used if item.steal_share is not None]
    others = max([sum(shares) / len(shares) for shares in (taken, stolen) if shares], default=0.0)
    return others < STRANGERS or (bool(asked) and sum(asked) / len(asked) >= WAITS)


def _while_serving(found: _Measured) -> tuple[Bound, Sureness, str]:
    held, room = found.item.peak_memory_bytes, found.peaks.memory_bytes
    if held and room and held >= FULL * room:
        return "capacity", "clear", f"it holds {percent(held / room)} of the device's memory"
    if found.starved:
        bound, _, reason = _by_work(found)
        return (
            bound,
            "unclear",
            f"others left it {found.cores or 0:.2f} cores, so judged by its CPU time alone: {reason}",
        )
    if found.cores is not None and found.cores < BUSY_CORE:
        if found.on_cpu:
            return "waiting elsewhere", "clear", f"it uses {found.cores:.2f} cores and waits for the rest of its time"
        return "launch or host overhead", "clear", f"the device works for only {percent(found.cores)} of its time"
    return _by_work(found)


def _by_work(found: _Measured) -> tuple[Bound, Sureness, str]:
    unknown = found.compute_share is None and found.bandwidth_share is None
    return _without_shares(found) if unknown else _by_roofline(found)


def _without_shares(found: _Measured) -> tuple[Bound, Sureness, str]:
    if found.item.work.flops_per_request is not None:
        return "unknown", "unclear", "the device's peak rates are not known"
    if found.cores is not None and found.on_cpu:
        return (
            "compute",
            "likely",
            f"it keeps {found.cores:.2f} cores busy with work whose FLOPs and bytes are not stated",
        )
    return "unknown", "unclear", "it states neither FLOPs nor bytes"


def _by_roofline(found: _Measured) -> tuple[Bound, Sureness, str]:
    compute, bandwidth = found.compute_share or 0.0, found.bandwidth_share or 0.0
    said = " and ".join(
        words
        for share, words in (
            (found.compute_share, f"{percent(compute)} of the compute peak"),
            (found.bandwidth_share, f"{percent(bandwidth)} of the memory bandwidth"),
        )
        if share is not None
    )
    said = f"it reaches {said}"
    if not found.peaks.undisturbed:
        said += " (peaks measured beside other work, so they are higher)"
    working_set, cache = found.item.working_set_bytes, found.peaks.cache_bytes
    fits = working_set is not None and cache is not None and working_set <= cache
    if (bandwidth >= FROM_CACHE and found.peaks.undisturbed) or (fits and bandwidth > compute):
        held = f", and its {(working_set or 0) / 2**20:.2g} MiB fit into the cache" if fits else ""
        return "cache", "clear", f"it requests {bandwidth:.2g}x what the memory can deliver{held}"
    highest = max(compute, bandwidth)
    bound: Bound = "compute" if compute >= bandwidth else "memory bandwidth"
    if not found.peaks.undisturbed:
        return bound, "unclear", said
    if highest >= NEAR_PEAK:
        return bound, "clear" if highest >= AT_PEAK else "likely", said
    if highest < FAR_FROM_PEAK:
        return (
            "launch or host overhead",
            "likely",
            f"{said}: its time goes into launching and preparing work, not into the work itself",
        )
    return bound, "unclear", f"{said}, far from either"


def _mean(used: Sequence[TenantEvidence], value_of: Callable[[TenantEvidence], float | None]) -> Number:
    values = [(item.seen.block, value) for item in used if (value := value_of(item)) is not None]
    return mean_interval(by_block(values)) if values else Missing("not observed")
