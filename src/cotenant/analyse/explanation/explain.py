"""The explanation of a run: tenants alone, parts of slowdowns, mixes, circumstances, and missing measurements."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from cotenant.analyse.decision import Answer, decide
from cotenant.analyse.decision.in_words import in_words
from cotenant.analyse.explanation.binding import Binding, bindings
from cotenant.analyse.explanation.contention import MixStory, Pair, stories
from cotenant.analyse.explanation.split import WORK, Split, splits
from cotenant.analyse.explanation.surroundings import Circumstance, circumstances
from cotenant.analyse.insight.groups import Contrast, contrasts
from cotenant.analyse.insight.pattern import Pattern, patterns
from cotenant.analyse.insight.properties import sufferers
from cotenant.analyse.sharing.cells import Cell
from cotenant.analyse.sharing.evidence import Peaks, TenantEvidence
from cotenant.analyse.sharing.model_error import of_ratio
from cotenant.analyse.sharing.slowdown import Solos, log_slowdowns
from cotenant.analyse.sharing.summarise import summarise
from cotenant.analyse.sharing.summary import Summary
from cotenant.analyse.tabular import document
from cotenant.tenancy.device_name import DeviceName
from cotenant.tenancy.records import TenantObservation


@dataclass(frozen=True, slots=True)
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
    more: tuple[str, ...]
    """Measurements that would explain more, one sentence each."""
    simulated: bool

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
            more=list(self.more),
            sentences=explanation_sentences(self),
        )


def explain_run(
    evidence: Sequence[TenantEvidence],
    peaks: Peaks,
    summary: Summary | None = None,
    answer: Answer | None = None,
    kinds: Mapping[str, str] = MappingProxyType({}),
) -> Explanation:
    """Explain one run.

    Args:
        evidence: Every tenant in every trial.
        peaks: Peak rates of the device, as far as known.
        summary: The run's summary, if it is known already.
        answer: The decision made from all latencies; by default the one this evidence supports.
        kinds: Kind of each tenant of the study, where known: `encoder`, `decoder`.
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
        more=tuple(_more(evidence, alone, parts, mixes, peaks)),
        simulated=any(item.simulated for item in seen),
    )


def _in_cells(seen: TenantObservation) -> tuple[Cell, str, int]:
    return Cell.of(seen), seen.tenant, seen.trial


def _pairs(seen: Sequence[TenantObservation]) -> Mapping[Cell, Pair]:
    """For every mix of two different tenants: the ratio of their slowdowns, block by block."""
    solos = Solos()
    cells: dict[Cell, dict[str, list[TenantObservation]]] = {}
    for one in seen:
        solos.add(one)
        if not one.solo:
            cells.setdefault(Cell.of(one), {}).setdefault(one.tenant, []).append(one)
    found = {}
    for cell, members in cells.items():
        if len(members) == 2 and len({group[0].of for group in members.values()}) == 2:
            (first, a), (second, b) = ((name, log_slowdowns(group, solos)) for name, group in sorted(members.items()))
            logs = tuple(a[block] - b[block] for block in a if block in b)
            mine, theirs = (members[name][0].model_error for name in (first, second))
            error = None if mine is None or theirs is None else of_ratio(mine, theirs)
            found[cell] = Pair(first, second, logs, error)
    return found


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
    if any(one.sure == "unclear" for one in alone) and any(one.reason.startswith("it states neither") for one in alone):
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
    if any(story.worth == "open" and story.stp.lo is not None for story in mixes):
        yield "More blocks would settle the mixes whose interval contains 1."
