"""Collect solos and measured mixes from any number of runs, with the slowdown of each tenant."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

from cotenant.analyse.estimates.estimate import Estimate
from cotenant.analyse.estimates.intervals import ratio_interval
from cotenant.analyse.sharing.cells import usable
from cotenant.analyse.sharing.evidence import TenantEvidence
from cotenant.analyse.sharing.slowdown import Solos, log_slowdowns
from cotenant.tenancy.identity import TenantIdentity
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
    """One mix under one sharing: the slowdown of each distinct tenant over blocks."""

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


@dataclass(frozen=True, slots=True)
class Learnt:
    """Evidence from runs on this kind of device."""

    found: Gathered
    bytes_per_s: float | None
    """Peak rate of memory, where a run recorded it."""
    notes: tuple[str, ...] = ()
    tables: "tuple[ForeignTable, ...]" = ()
    """What others measured."""


def gathered(evidence: Sequence[TenantEvidence]) -> Gathered:
    """Solos and mixes under closed loads; invalid trials and open loads are left out."""
    good = [one for one in evidence if usable(one.seen) and one.seen.n > 0]
    closed = [one for one in good if not one.open]
    errors = {
        (one.seen.sharing, key_of(one)): one.seen.model_error
        for one in closed
        if not one.seen.solo and one.seen.model_error is not None
    }
    return Gathered(_solos(closed), _mixes(closed), len(good) - len(closed), errors)


def key_of(one: TenantEvidence) -> TenantIdentity:
    """Identity of an observed tenant: from its work alone where nothing more is known of it."""
    work = one.work
    return one.identity or TenantIdentity(work.workload, work.batch, work.seq, work.dtype, work.threads)


def _solos(evidence: Iterable[TenantEvidence]) -> tuple[SoloTenant, ...]:
    alone: dict[TenantIdentity, list[TenantEvidence]] = {}
    for one in evidence:
        if one.seen.solo:
            alone.setdefault(key_of(one), []).append(one)
    return tuple(_solo(key, group) for key, group in sorted(alone.items(), key=lambda item: item[1][0].seen.of))


def _solo(key: TenantIdentity, group: Sequence[TenantEvidence]) -> SoloTenant:
    device = [one.seen.mean_device_ns for one in group if one.seen.mean_device_ns is not None]
    memory = [one.peak_memory_bytes for one in group if one.peak_memory_bytes is not None]
    return SoloTenant(
        key=key,
        name=group[0].seen.of,
        service_ns=fmean(one.service_ns or one.seen.mean_latency_ns for one in group),
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
    for one in evidence:
        if one.seen.solo:
            solos.add(one.seen)
        else:
            trials.setdefault((one.seen.run, one.seen.trial), []).append(one)
    found: dict[tuple[str, tuple[TenantIdentity, ...]], dict[TenantIdentity, dict[str, list[TenantEvidence]]]] = {}
    for trial in trials.values():
        members = tuple(sorted(map(key_of, trial), key=repr))
        cell = found.setdefault((trial[0].seen.sharing, members), {})
        for one in trial:
            cell.setdefault(key_of(one), {}).setdefault(one.seen.run, []).append(one)
    mixes = []
    for (sharing, members), victims in found.items():
        slowdowns = [(key, _over_blocks(by_run, solos)) for key, by_run in victims.items()]
        known = tuple((key, estimate) for key, estimate in slowdowns if estimate is not None)
        if len(members) > 1 and known:
            mixes.append(MeasuredMix(sharing, members, known))
    return tuple(mixes)


def _over_blocks(by_run: dict[str, list[TenantEvidence]], solos: Solos) -> Estimate | None:
    logs = [value for group in by_run.values() for value in log_slowdowns([one.seen for one in group], solos).values()]
    return ratio_interval(logs, LEVEL) if logs else None
