"""Solos and measured mixes of any number of runs: who they are, and how much each was slowed down."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from cotenant.analyse.estimates.estimate import Estimate
from cotenant.analyse.estimates.intervals import ratio_interval
from cotenant.analyse.sharing.cells import usable
from cotenant.analyse.sharing.evidence import TenantEvidence
from cotenant.analyse.sharing.slowdown import Solos, log_slowdowns

LEVEL = 0.9
"""Of the intervals of measured slowdowns, as of those that are predicted."""


class TenantKey(NamedTuple):
    """What runs, at which size: tenants of different runs with the same key are one."""

    workload: str
    batch: int | None = None
    seq: int | None = None
    dtype: str | None = None
    threads: int | None = None

    def __str__(self) -> str:
        """`bert-base, batch 4`."""
        return self.workload + ("" if self.batch is None else f", batch {self.batch}")


@dataclass(frozen=True, slots=True)
class SoloTenant:
    """A tenant alone, over all its solo trials."""

    key: TenantKey
    name: str
    """In the run that it was first met in."""
    service_ns: float
    """Mean time of a request once it has begun."""
    device_ns: float | None
    """Time the device worked on it; on a CPU its CPU time, of all cores together."""
    flops: float | None
    moved_bytes: float | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class MeasuredMix:
    """One mix under one sharing: every different tenant of it with its slowdown over blocks."""

    sharing: str
    members: tuple[TenantKey, ...]
    """Sorted; a tenant that has copies is there as often."""
    slowdowns: tuple[tuple[TenantKey, Estimate], ...]


@dataclass(frozen=True, slots=True)
class Gathered:
    """What was found."""

    solos: tuple[SoloTenant, ...]
    mixes: tuple[MeasuredMix, ...]
    open_loads: int
    """Observations that were left aside, as their neighbours were not always active."""


def gathered(evidence: Sequence[TenantEvidence]) -> Gathered:
    """Solos and mixes under closed loads; invalid trials and trials under open loads are left aside."""
    good = [one for one in evidence if usable(one.seen) and one.seen.n > 0]
    closed = [one for one in good if not one.open]
    return Gathered(_solos(closed), _mixes(closed), len(good) - len(closed))


def key_of(one: TenantEvidence) -> TenantKey:
    """Of an observed tenant."""
    work = one.work
    return TenantKey(work.workload, work.batch, work.seq, work.dtype, work.threads)


def _solos(evidence: Iterable[TenantEvidence]) -> tuple[SoloTenant, ...]:
    alone: dict[TenantKey, list[TenantEvidence]] = {}
    for one in evidence:
        if one.seen.solo:
            alone.setdefault(key_of(one), []).append(one)
    return tuple(_solo(key, group) for key, group in sorted(alone.items(), key=lambda item: item[1][0].seen.of))


def _solo(key: TenantKey, group: Sequence[TenantEvidence]) -> SoloTenant:
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
    )


def _mixes(evidence: Sequence[TenantEvidence]) -> tuple[MeasuredMix, ...]:
    solos = Solos()
    trials: dict[tuple[str, int], list[TenantEvidence]] = {}
    for one in evidence:
        if one.seen.solo:
            solos.add(one.seen)
        else:
            trials.setdefault((one.seen.run, one.seen.trial), []).append(one)
    found: dict[tuple[str, tuple[TenantKey, ...]], dict[TenantKey, dict[str, list[TenantEvidence]]]] = {}
    for trial in trials.values():
        members = tuple(sorted(map(key_of, trial), key=str))
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
