"""The explanation of a run: tenants alone, parts of slowdowns, mixes, circumstances, and missing measurements."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

from cotenant.analyse.decision import Answer, decide
from cotenant.analyse.decision.option import KEEPS_UP, behind
from cotenant.analyse.decision.wording import in_words
from cotenant.analyse.explanation.binding import Binding, bindings
from cotenant.analyse.explanation.contention import ContendingPair, MixStory, stories, unneeded_shares
from cotenant.analyse.explanation.patterns import Contrast, Pattern, contrasts, patterns, sufferers
from cotenant.analyse.explanation.split import WORK, Split, splits
from cotenant.analyse.sharing.cells import Cell
from cotenant.analyse.sharing.evidence import Peaks, TenantEvidence
from cotenant.analyse.sharing.model_error import of_ratio
from cotenant.analyse.sharing.slowdown import Solos, log_slowdowns
from cotenant.analyse.sharing.summarise import summarise
from cotenant.analyse.sharing.summary import Summary
from cotenant.analyse.tabular import document
from cotenant.tenancy.device_names import DeviceName
from cotenant.tenancy.records import OWN, TenantObservation
from cotenant.text import percent, rate

# --- influences from outside the mixes: foreign processes, the hypervisor, too much load, a falling clock

STRANGERS = 0.10
STOLEN = 0.05
CLOCK_FELL = 0.03

TrialKey = tuple[str, int]


class Circumstance(NamedTuple):
    """Something that affects the complete run."""

    kind: str
    """`noisy neighbour`, `hypervisor`, `overload`, `clock`."""
    sentence: str
    about: str = ""
    """The tenant concerned, if it is a single tenant."""

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
    for (mix, sharing, load, tenant), group in sorted(
        cells.items(), key=lambda cell_and_group: not cell_and_group[1][0].seen.solo
    ):
        due = sum(item.seen.n + item.seen.unfinished for item in group)
        unserved = sum(item.seen.unfinished for item in group) / due if due else 0.0
        served = fmean(item.seen.throughput_rps for item in group)
        asked = [item.rate_rps for item in group if item.rate_rps]
        seconds = sum(item.seen.n / item.seen.throughput_rps for item in group if item.seen.throughput_rps)
        came = due / sum(item.seen.window_s for item in group)
        if not behind(came, served, seconds) if asked else unserved <= 1 - KEEPS_UP:
            continue
        offered = f"{rate(fmean(asked))} offered" if asked else "more was offered"
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


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """All of it."""

    answer: Answer
    """What to do."""
    tenants: tuple[Binding, ...]
    splits: tuple[Split, ...]
    mixes: tuple[MixStory, ...]
    circumstances: tuple[Circumstance, ...]
    patterns: tuple[Pattern, ...]
    """Tenant properties that correlate with slowdown, by way to share; empty with few mixes."""
    contrasts: tuple[Contrast, ...]
    """Groups of pairs (by kind, by size) compared, by way to share; empty with few mixes."""
    shares: tuple[str, ...]
    """Tenants that have more of the device than they need, a sentence each."""
    more: tuple[str, ...]
    """Measurements that would explain more, a sentence each."""
    simulated: bool

    def __repr__(self) -> str:
        return f"<cotenant.types.Explanation of {len(self.mixes)} mixes: {str(self.answer).partition(chr(10))[0]}>"

    def to_json(self) -> dict[str, Any]:
        """Plain data, stable within a schema version."""
        from cotenant.analyse.explanation.sentences import explanation_sentences

        return document(
            simulated=self.simulated,
            answer=in_words(self.answer),
            tenants=self.tenants,
            slowdowns=self.splits,
            mixes=self.mixes,
            circumstances=self.circumstances,
            patterns=self.patterns,
            contrasts=self.contrasts,
            shares=list(self.shares),
            more=list(self.more),
            sentences=explanation_sentences(self),
        )


def explain_run(
    evidence: Sequence[TenantEvidence],
    peaks: Peaks,
    summary: Summary | None = None,
    answer: Answer | None = None,
    kinds: Callable[[], Mapping[str, str]] = dict,
) -> Explanation:
    """Explain a run.

    Args:
        evidence: Every tenant in every trial.
        peaks: Peak rates of the device, as far as known.
        summary: The run's summary, if it is known already.
        answer: The decision made from all latencies; by default, what this evidence supports.
        kinds: Asked, if groups of mixes can be compared, for each tenant's kind where known: `encoder`, `decoder`.
    """
    seen = [item.seen for item in evidence]
    alone, parts = bindings(evidence, peaks), splits(evidence)
    summary = summarise(sorted(seen, key=_in_cells)) if summary is None else summary
    answer = decide(summary) if answer is None else answer
    suffering = sufferers(summary, alone)
    mixes = stories(summary, parts, alone, peaks, _pairs(seen), answer=answer)
    return Explanation(
        answer=answer,
        tenants=tuple(alone),
        splits=tuple(parts),
        mixes=tuple(mixes),
        circumstances=tuple(circumstances(evidence)),
        patterns=tuple(patterns(suffering)),
        contrasts=tuple(contrasts(suffering, kinds)),
        shares=tuple(unneeded_shares(answer, _busy(evidence))),
        more=tuple(_more(evidence, alone, parts, mixes, peaks)),
        simulated=any(item.simulated for item in seen),
    )


def _in_cells(seen: TenantObservation) -> tuple[Cell, str, int]:
    return Cell.of(seen), seen.tenant, seen.trial


def _pairs(seen: Sequence[TenantObservation]) -> Mapping[Cell, ContendingPair]:
    """For every mix of two different tenants: the ratio of their slowdowns, block by block."""
    solos = Solos()
    cells: dict[Cell, dict[str, list[TenantObservation]]] = {}
    for tenant in seen:
        solos.add(tenant)
        if not tenant.solo:
            cells.setdefault(Cell.of(tenant), {}).setdefault(tenant.tenant, []).append(tenant)
    found = {}
    for cell, members in cells.items():
        if len(members) == 2 and len({group[0].of for group in members.values()}) == 2:
            (first, a), (second, b) = ((name, log_slowdowns(group, solos)) for name, group in sorted(members.items()))
            logs = tuple(a[block] - b[block] for block in a if block in b)
            mine, theirs = (members[name][0].model_error for name in (first, second))
            error = None if mine is None or theirs is None else of_ratio(mine, theirs)
            found[cell] = ContendingPair(first, second, logs, error)
    return found


def _busy(evidence: Sequence[TenantEvidence]) -> dict[tuple[Cell, str], float]:
    """Share of the time in which each tenant of each shared cell works on a request, if it works on one at a time."""
    parts: dict[tuple[Cell, str], list[float]] = {}
    for item in evidence:
        if item.open and not item.seen.solo and item.service_ns:
            busy = item.seen.throughput_rps * item.service_ns / 1e9
            parts.setdefault((Cell.of(item.seen), item.seen.tenant), []).append(busy)
    return {tenant: fmean(values) for tenant, values in parts.items()}


def _more(
    evidence: Sequence[TenantEvidence],
    alone: Sequence[Binding],
    parts: Sequence[Split],
    mixes: Sequence[MixStory],
    peaks: Peaks,
) -> Iterator[str]:
    on_cpu = any(DeviceName(item.seen.device).on_cpu for item in evidence)
    if any(WORK in split.parts and split.slowed for split in parts):
        yield (
            "There is no clock sensor, so a lower clock and slower memory look alike: a machine that shows its clock "
            "(bare metal) would tell them apart."
        )
    if on_cpu and not peaks.counters and any(split.slowed for split in parts):
        yield (
            "Hardware counters (`perf`) would tell cache misses from lack of bandwidth; `cotenant doctor` says why "
            "they are missing."
        )
    if not peaks.flops_per_s and any(item.work.flops_per_request for item in evidence):
        yield "This run has no roofline: its manifest has no peak rates, which newer runs measure and record."
    elif not peaks.undisturbed:
        yield "The peak rates were measured while something else ran: measure them again on a quiet machine."
    if any(binding.sure == "unclear" for binding in alone) and any(
        binding.reason.startswith("it states neither") for binding in alone
    ):
        yield "Workloads that state their FLOPs and bytes can be placed on the roofline."
    for split in parts:
        if split.unsplit is not None:
            yield f"The slowdown in {split.cell.mix} ({split.cell.sharing}) can't be split: {split.unsplit}."
            break
    if any(threads not in {None, 1} for threads in {item.work.threads for item in evidence}) and any(
        split.slowed for split in parts
    ):
        yield (
            "Threads that spin while they wait for each other use CPU time without working: with several threads per "
            "tenant part of `more CPU time` can be that."
        )
    if any(story.worth == "open" and story.stp.lo is not None and not story.cell.simulated for story in mixes):
        yield "More blocks would settle the mixes whose interval contains 1."
