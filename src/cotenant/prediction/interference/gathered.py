"""Collect solos and measured mixes from any number of runs, with the slowdown of each tenant."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

from cotenant.analyse.estimates import ratio_interval
from cotenant.analyse.sharing import Solos, TenantEvidence, log_slowdowns, usable
from cotenant.prediction.interference.setting import LARGEST
from cotenant.tenancy.identity import TenantIdentity
from cotenant.tenancy.interval import Estimate
from cotenant.tenancy.records import ModelErrorRecord

if TYPE_CHECKING:
    from cotenant.prediction.interference.elsewhere import ForeignTable

LEVEL = 0.9
"""Level of the intervals of measured slowdowns, the same as of predicted ones."""


@dataclass(frozen=True, slots=True)
class SoloTenant:
    """A tenant alone, over all its solo trials."""

    key: TenantIdentity
    name: str
    """Name in the first run that has it."""
    service_ns: float
    """Mean service time of a request."""
    device_ns: float | None
    """Device time per request; on a CPU, its CPU time over all cores."""
    flops: float | None
    moved_bytes: float | None
    memory_bytes: int | None
    threads: int | None = None
    """CPU threads per operator that it had."""
    foreign: bool = False
    """Whether others measured it."""
    unstable: bool = False
    """Whether no solo trial was valid: others may have taken its cores meanwhile."""


@dataclass(frozen=True, slots=True)
class MeasuredMix:
    """A mix under a way to share: the slowdown of each distinct tenant over blocks."""

    sharing: str
    members: tuple[TenantIdentity, ...]
    """Sorted; copies are repeated."""
    slowdowns: tuple[tuple[TenantIdentity, Estimate], ...]


@dataclass(frozen=True, slots=True)
class Gathered:
    """The collected measurements."""

    solos: tuple[SoloTenant, ...]
    mixes: tuple[MeasuredMix, ...]
    open_loads: int
    """Observations left out because their neighbours were not always active."""
    errors: Mapping[tuple[str, TenantIdentity], ModelErrorRecord] = field(default_factory=dict)
    """By way to share and tenant: the simulation's error, where the mixes were simulated."""
    too_large: int = 0
    """Mixes left out because a prior says nothing about as many tenants."""


@dataclass(frozen=True, slots=True)
class Learnt:
    """Evidence from runs on this kind of device."""

    found: Gathered
    bytes_per_s: float | None
    """Peak rate of memory, where a run recorded it."""
    notes: tuple[str, ...] = ()
    tables: "tuple[ForeignTable, ...]" = ()
    """What others measured."""


def gather_evidence(evidence: Sequence[TenantEvidence]) -> Gathered:
    """Solos and mixes under closed loads; invalid trials and open loads are left out."""
    good = [tenant for tenant in evidence if usable(tenant.seen) and tenant.seen.n > 0]
    closed = [tenant for tenant in good if not tenant.open]
    errors = {
        (tenant.seen.sharing, key_of(tenant)): tenant.seen.model_error
        for tenant in closed
        if not tenant.seen.solo and tenant.seen.model_error is not None
    }
    mixes = _mixes(closed)
    known = tuple(mix for mix in mixes if len(mix.members) <= LARGEST)
    return Gathered(_solos(closed), known, len(good) - len(closed), errors, len(mixes) - len(known))


def key_of(tenant: TenantEvidence) -> TenantIdentity:
    """Identity of an observed tenant: from its work alone where nothing more is known of it."""
    work = tenant.work
    return tenant.identity or TenantIdentity(work.workload, work.batch, work.seq, work.dtype, work.threads)


def _solos(evidence: Iterable[TenantEvidence]) -> tuple[SoloTenant, ...]:
    alone: dict[TenantIdentity, list[TenantEvidence]] = {}
    for tenant in evidence:
        if tenant.seen.solo:
            alone.setdefault(key_of(tenant), []).append(tenant)
    return tuple(_solo(key, group) for key, group in sorted(alone.items(), key=lambda item: item[1][0].seen.of))


def _solo(key: TenantIdentity, group: Sequence[TenantEvidence]) -> SoloTenant:
    device = [tenant.seen.mean_device_ns for tenant in group if tenant.seen.mean_device_ns is not None]
    memory = [tenant.peak_memory_bytes for tenant in group if tenant.peak_memory_bytes is not None]
    return SoloTenant(
        key=key,
        name=group[0].seen.of,
        service_ns=fmean(tenant.service_ns or tenant.seen.mean_latency_ns for tenant in group),
        device_ns=fmean(device) if device else None,
        flops=group[0].work.flops_per_request,
        moved_bytes=group[0].work.bytes_per_request,
        memory_bytes=max(memory, default=None),
        threads=group[0].work.threads,
        unstable=all(evidence.seen.verdict == "unstable" for evidence in group),
    )


def _mixes(evidence: Sequence[TenantEvidence]) -> tuple[MeasuredMix, ...]:
    solos = Solos()
    trials: dict[tuple[str, int], list[TenantEvidence]] = {}
    for tenant in evidence:
        if tenant.seen.solo:
            solos.add(tenant.seen)
        else:
            trials.setdefault((tenant.seen.run, tenant.seen.trial), []).append(tenant)
    by_mix: dict[tuple[str, tuple[TenantIdentity, ...]], dict[TenantIdentity, dict[str, list[TenantEvidence]]]] = {}
    for trial in trials.values():
        members = tuple(sorted(map(key_of, trial), key=repr))
        cell = by_mix.setdefault((trial[0].seen.sharing, members), {})
        for tenant in trial:
            cell.setdefault(key_of(tenant), {}).setdefault(tenant.seen.run, []).append(tenant)
    mixes = []
    for (sharing, members), victims in by_mix.items():
        slowdowns = [(key, _over_blocks(by_run, solos)) for key, by_run in victims.items()]
        known = tuple((key, estimate) for key, estimate in slowdowns if estimate is not None)
        if len(members) > 1 and known:
            mixes.append(MeasuredMix(sharing, members, known))
    return tuple(mixes)


def _over_blocks(by_run: dict[str, list[TenantEvidence]], solos: Solos) -> Estimate | None:
    logs = [
        value for group in by_run.values() for value in log_slowdowns([tenant.seen for tenant in group], solos).values()
    ]
    return ratio_interval(logs, LEVEL) if logs else None
