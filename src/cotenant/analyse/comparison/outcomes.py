"""From the series of two runs to verdicts with reasons: for rows, for tenants, and for the part they share."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from cotenant.analyse.comparison.changes import LEVEL, JudgedChange, Verdict, change, judge, widened
from cotenant.analyse.comparison.series import BlockSeries, pooled
from cotenant.analyse.estimates.effects import RatioEffect, equivalence
from cotenant.analyse.sharing.evidence import Logs, relative_to
from cotenant.analyse.tabular import fields_of
from cotenant.tenancy.interval import Missing, Number

Because = Literal[
    "beyond the margin", "within the margin", "the clock", "all tenants alike", "requests not served",
    "not valid", "too noisy", "too few blocks", "no usable trial", "other work", "other rate",
]  # fmt: skip
"""Reasons for a verdict: a closed set that scripts can rely on."""

CLOCK_MOVED = 0.01
"""Smallest drop of the clock that counts as an explanation."""
NO_CLOCK = "no clock sensor in both runs"


class ComparedPair(NamedTuple):
    """One quantity in both runs."""

    before: Logs
    now: Logs

    def change(self) -> RatioEffect | None:
        """Now / before."""
        return change(self.now, self.before)

    def without(self, common: "ComparedPair | None") -> "ComparedPair":
        """Remove each block's common part."""
        if common is None:
            return self
        return ComparedPair(*(relative_to(run, shared) for run, shared in zip(self, common, strict=True)))


@dataclass(frozen=True, slots=True)
class Subject:
    """A row or tenant to be judged."""

    time: ComparedPair
    cycles: ComparedPair
    clock: ComparedPair
    unserved: bool = False
    """Judged by the share of unserved requests rather than by the time of those served."""


@dataclass(frozen=True, slots=True)
class ComparisonOutcome:
    """A verdict and the numbers behind it."""

    verdict: Verdict
    because: Because
    total: Number
    """Time per request now / before."""
    own: Number
    """The same with the part common to all tenants removed."""
    cycles: Number
    """Clock cycles per request now / before."""
    clock: Number
    """Clock now / before."""
    p_value: float | None = None
    blocks_missing: int | None = None

    @property
    def regression(self) -> bool:
        """Slower, and not because of the clock."""
        return self.verdict == "slower" and self.because != "the clock"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return fields_of(self, "regression", total="ratio", own="own_ratio", cycles="cycles_ratio", clock="clock_ratio")


def refused(because: Because, detail: str) -> ComparisonOutcome:
    """No verdict, with the reason."""
    nothing = Missing(detail)
    return ComparisonOutcome("ambiguous", because, nothing, nothing, nothing, nothing)


def subject(before: BlockSeries, now: BlockSeries) -> Subject:
    """A row, judged by its time or, where requests were not served, by the requests offered per request served."""
    unserved = before.overloaded or now.overloaded
    return Subject(
        time=ComparedPair(before.offered, now.offered) if unserved else ComparedPair(before.time, now.time),
        cycles=ComparedPair(before.cycles, now.cycles),
        clock=ComparedPair(before.clock, now.clock),
        unserved=unserved,
    )


def together(subjects: Sequence[Subject]) -> Subject:
    """Several rows pooled: their mean in each block scatters less than each of them."""

    def mean(pairs: Sequence[ComparedPair]) -> ComparedPair:
        return ComparedPair(pooled([pair.before for pair in pairs]), pooled([pair.now for pair in pairs]))

    return Subject(
        time=mean([subject.time for subject in subjects]),
        cycles=mean([subject.cycles for subject in subjects]),
        clock=mean([subject.clock for subject in subjects]),
    )


def withheld(outcome: ComparisonOutcome) -> ComparisonOutcome:
    """Numbers without a verdict: the trials behind them are not valid."""
    return replace(outcome, verdict="ambiguous", because="not valid")


def outcomes(
    subjects: Sequence[Subject],
    common: ComparedPair | None,
    margin: float,
    level: float,
    *,
    common_moved: bool,
    between: float = 0.0,
) -> list[ComparisonOutcome]:
    """Judge a family of subjects.

    Args:
        subjects: Each with at least two blocks in both runs.
        common: The part common to all tenants in each block.
        margin: The smallest change that matters.
        level: Error rate of the whole family.
        common_moved: The common part is a change in itself, so it is not removed from the subjects.
        between: Variance between runs; removing the common part removes it too.
    """
    totals = [_total(subject.time, between) for subject in subjects]
    owns = [
        _total(subject.time, between) if subject.unserved or common is None else subject.time.without(common).change()
        for subject in subjects
    ]
    judged_by = [total if common_moved or own is None else own for total, own in zip(totals, owns, strict=True)]
    effects = [effect for effect in judged_by if effect is not None]
    if len(effects) < len(subjects):
        raise ValueError("a subject has fewer than two blocks")
    verdicts = judge(effects, margin, level)
    return [
        _outcome(subject, total, own, judged, margin, common_moved=common_moved)
        for subject, total, own, judged in zip(subjects, totals, owns, verdicts, strict=True)
    ]


def _total(time: ComparedPair, between: float) -> RatioEffect | None:
    found = time.change()
    return None if found is None else widened(found, between)


def _outcome(
    subject: Subject,
    total: RatioEffect | None,
    own: RatioEffect | None,
    judged: JudgedChange,
    margin: float,
    *,
    common_moved: bool,
) -> ComparisonOutcome:
    cycles, clock = subject.cycles.change(), subject.clock.change()
    return ComparisonOutcome(
        verdict=judged.verdict,
        because=_because(subject, own, judged, (cycles, clock), margin=margin, common_moved=common_moved),
        total=total.ratio if total else Missing("too few blocks"),
        own=own.ratio if own else Missing("no common part in its blocks"),
        cycles=cycles.ratio if cycles else Missing(NO_CLOCK),
        clock=clock.ratio if clock else Missing(NO_CLOCK),
        p_value=judged.p_value,
        blocks_missing=judged.blocks_missing,
    )


def _because(
    subject: Subject,
    own: RatioEffect | None,
    judged: JudgedChange,
    cycles_and_clock: tuple[RatioEffect | None, RatioEffect | None],
    *,
    margin: float,
    common_moved: bool,
) -> Because:
    if subject.unserved:
        return "requests not served"
    if judged.verdict == "same":
        return "within the margin"
    if judged.verdict == "ambiguous":
        return "too noisy"
    if judged.verdict == "slower" and excused_by_clock(*cycles_and_clock, margin):
        return "the clock"
    if common_moved and own is not None and abs(own.log_ratio) <= math.log1p(margin):
        return "all tenants alike"
    return "beyond the margin"


def excused_by_clock(cycles: RatioEffect | None, clock: RatioEffect | None, margin: float) -> bool:
    """True if the clock fell and the cycles per request are shown to be the same or fewer.

    Assumes that the work scales with the clock; a tenant that waits for memory takes fewer cycles at a lower clock.
    """
    if cycles is None or clock is None or clock.ratio.est > 1 - CLOCK_MOVED:
        return False
    return cycles.log_ratio < 0 or equivalence(cycles, margin, LEVEL).holds(LEVEL)
