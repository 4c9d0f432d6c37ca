"""Influences from outside the mixes: foreign processes, the hypervisor, too much load, a falling clock."""

import math
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from statistics import fmean
from typing import Any, NamedTuple

from cotenant.analyse.sharing.evidence import TenantEvidence
from cotenant.tenancy.records import OWN
from cotenant.text import percent

STRANGERS = 0.10
STOLEN = 0.05
UNSERVED = 0.01
CLOCK_FELL = 0.03
FULLY_BUSY = 0.97

TrialKey = tuple[str, int]


class Circumstance(NamedTuple):
    """Something that affects the complete run."""

    kind: str
    """`noisy neighbour`, `hypervisor`, `overload`, `clock`."""
    sentence: str
    about: str = ""
    """The tenant concerned, if it is a single one."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return self._asdict()


def circumstances(evidence: Sequence[TenantEvidence]) -> list[Circumstance]:
    """What to know before trusting any slowdown of this run."""
    return [
        *_strangers(evidence),
        *_stolen(evidence),
        *_overloads(evidence),
        *_clock(evidence),
    ]


def _strangers(evidence: Sequence[TenantEvidence]) -> Iterator[Circumstance]:
    shares = _by_trial(evidence, "foreign_share")
    loud = {trial: share for trial, share in shares.items() if share >= STRANGERS}
    if loud:
        yield Circumstance(
            "noisy neighbour",
            f"Processes outside the study took {percent(fmean(loud.values()))} of the device in {len(loud)} of "
            f"{len(shares)} trials{_their_effect(evidence, loud.keys())}: part of what looks like interference is "
            "theirs. Stop them and run again.",
        )


def _their_effect(evidence: Sequence[TenantEvidence], loud: AbstractSet[TrialKey]) -> str:
    """How much slower the same cells were in disturbed than in undisturbed trials."""
    rows: dict[tuple[str, str, str, str, str, str], tuple[list[float], list[float]]] = {}
    for item in evidence:
        seen = item.seen
        if seen.n and seen.mean_latency_ns > 0 and item.foreign_share is not None:
            row = (seen.run, seen.mix, seen.sharing, seen.load, seen.settings, seen.tenant)
            quiet, disturbed = rows.setdefault(row, ([], []))
            here = (seen.run, seen.trial) in loud
            (disturbed if here else quiet).append(math.log(seen.mean_latency_ns))
    changes = [fmean(disturbed) - fmean(quiet) for quiet, disturbed in rows.values() if quiet and disturbed]
    if not changes:
        return ""
    return f", in which the same cells took {math.exp(fmean(changes)):.2f}x the time of undisturbed ones"


def _stolen(evidence: Sequence[TenantEvidence]) -> Iterator[Circumstance]:
    shares = _by_trial(evidence, "steal_share")
    loud = [share for share in shares.values() if share >= STOLEN]
    if loud:
        yield Circumstance(
            "hypervisor",
            f"The hypervisor took {percent(fmean(loud))} of the device's time in {len(loud)} of {len(shares)} trials: "
            "a neighbour on the same host, which only a dedicated machine avoids.",
        )


def _overloads(evidence: Sequence[TenantEvidence]) -> Iterator[Circumstance]:
    cells: dict[tuple[str, str, str, str], list[TenantEvidence]] = {}
    for item in evidence:
        if item.open and item.seen.verdict != "invalid":
            cells.setdefault((item.seen.mix, item.seen.sharing, item.seen.load, item.seen.tenant), []).append(item)
    # Alone first: a tenant that is overloaded alone is overloaded in every mix.
    for (mix, sharing, load, tenant), group in sorted(cells.items(), key=lambda one: not one[1][0].seen.solo):
        due = sum(item.seen.n + item.seen.unfinished for item in group)
        unserved = sum(item.seen.unfinished for item in group) / due if due else 0.0
        served = fmean(item.seen.throughput_rps for item in group)
        services = [item.service_ns for item in group if item.service_ns]
        busy = served * fmean(services) / 1e9 if services else 0.0
        if unserved <= UNSERVED and busy < FULLY_BUSY:
            continue
        asked = [item.rate_rps for item in group if item.rate_rps]
        offered = f"{fmean(asked):.3g} requests/s were offered" if asked else "more was offered"
        waiting = [1 - item.service_ns / item.seen.mean_latency_ns for item in group if item.service_ns and item.seen.n]
        waits = f", {percent(max(fmean(waiting), 0))} of its latency is waiting" if waiting else ""
        where = "alone" if group[0].seen.solo else f"in {mix} ({sharing})"
        if load != OWN:
            where += f" at {load}"
        lost = f", {percent(unserved)} of requests never completed" if unserved else ""
        yield Circumstance(
            "overload",
            f"{tenant} is overloaded {where}: {offered} and {served:.3g} served{lost}{waits}. Its latency "
            "keeps growing as long as it is measured; lower the rate.",
            tenant,
        )


def _clock(evidence: Sequence[TenantEvidence]) -> Iterator[Circumstance]:
    alone = [item.clock_mhz for item in evidence if item.seen.solo and item.clock_mhz]
    shared = [item.clock_mhz for item in evidence if not item.seen.solo and item.clock_mhz]
    if not alone or not shared:
        return
    before, after = fmean(alone), fmean(shared)
    if after < before * (1 - CLOCK_FELL):
        yield Circumstance(
            "clock",
            f"The clock fell from {before:,.0f} MHz alone to {after:,.0f} MHz in company "
            f"({percent(after / before - 1)}): heat or a power limit slows all tenants, regardless of what they do to "
            "each other.",
        )


def _by_trial(evidence: Sequence[TenantEvidence], name: str) -> dict[TrialKey, float]:
    return {(item.seen.run, item.seen.trial): value for item in evidence if (value := getattr(item, name)) is not None}
