"""Two runs side by side: a verdict for every tenant of every cell that both contain."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np

from cotenant.analyse.comparison.changes import LEVEL, MARGIN, between_variance
from cotenant.analyse.comparison.outcomes import (
    Because,
    ComparedPair,
    ComparisonOutcome,
    Subject,
    outcomes,
    refused,
    subject,
    together,
    withheld,
)
from cotenant.analyse.comparison.series import (
    BlockSeries,
    CommonCells,
    SeriesRow,
    alone_by_tenant,
    common_part,
    series_by_row,
)
from cotenant.analyse.estimates.effects import independent_effect
from cotenant.analyse.estimates.intervals import mean_interval
from cotenant.analyse.sharing.accuracy import CROWDED
from cotenant.analyse.sharing.evidence import Logs, TenantEvidence
from cotenant.analyse.tabular import document
from cotenant.tenancy.interval import Estimate, Missing, Number
from cotenant.tenancy.records import TenantObservation
from cotenant.text import percent, rate


@dataclass(frozen=True, slots=True)
class TokenChange:
    """One time of generation, now against before."""

    metric: str
    """TTFT or TPOT."""
    before_ms: float
    now_ms: float
    ratio: Estimate


def token_changes(old: BlockSeries, new: BlockSeries) -> tuple[TokenChange, ...]:
    """Changes of the times that both runs have in at least two blocks."""
    pairs = (("TTFT", old.ttft, new.ttft), ("TPOT", old.tpot, new.tpot))
    return tuple(_change(name, a, b) for name, a, b in pairs if min(len(a), len(b)) >= 2)


def _change(metric: str, old: Logs, new: Logs) -> TokenChange:
    a, b = list(old.values()), list(new.values())
    ratio = independent_effect(np.exp(b), np.exp(a)).ratio
    return TokenChange(metric, math.exp(fmean(a)) / 1e6, math.exp(fmean(b)) / 1e6, ratio)


@dataclass(frozen=True, slots=True)
class RowChange:
    """A tenant of a cell, now against before."""

    row: SeriesRow
    of: str
    outcome: ComparisonOutcome
    before_ms: Number
    now_ms: Number
    detail: str = ""
    """What prevents a comparison by time, if anything does."""
    tokens: tuple[TokenChange, ...] = ()
    """Empty unless the tenant generates tokens."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return (
            self.row.to_json()
            | {"of": self.of, "detail": self.detail}
            | self.outcome.to_json()
            | {"before_ms": self.before_ms, "now_ms": self.now_ms}
            | {"tokens": self.tokens}
        )


@dataclass(frozen=True, slots=True)
class TenantChange:
    """A tenant of the study over all its cells, which shows smaller changes than any single cell."""

    of: str
    rows: int
    outcome: ComparisonOutcome

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"of": self.of, "rows": self.rows} | self.outcome.to_json()


@dataclass(frozen=True, slots=True)
class CommonChange:
    """The change common to all tenants, measured alone."""

    tenants: int
    alike: int
    outcome: ComparisonOutcome

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"tenants": self.tenants, "alike": self.alike} | self.outcome.to_json()


@dataclass(frozen=True, slots=True)
class Quality:
    """Validity of a run's trials."""

    trials: int
    doubtful: int
    """Unstable or invalid."""
    failed_checks: tuple[str, ...]
    """Most frequent first."""

    @property
    def mostly_valid(self) -> bool:
        """More than half of the trials are valid."""
        return 2 * self.doubtful < self.trials


@dataclass(frozen=True, slots=True)
class PairComparison:
    """Two runs: every row that both have, and what differs otherwise."""

    rows: tuple[RowChange, ...]
    tenants: tuple[TenantChange, ...]
    """Tenants of the study with at least two comparable rows."""
    common: CommonChange | None
    only_before: tuple[SeriesRow, ...]
    only_now: tuple[SeriesRow, ...]
    before: Quality
    now: Quality
    notes: tuple[str, ...]
    """Other differences between the runs, a sentence each."""
    margin: float
    level: float

    @property
    def withheld(self) -> str | None:
        """Why no verdict is given at all: most trials of a run are not valid."""
        doubtful = [
            f"{run.doubtful} of {run.trials} trials {when} are not valid ({', '.join(run.failed_checks) or 'unnamed'})"
            for when, run in (("before", self.before), ("now", self.now))
            if not run.mostly_valid
        ]
        return " and ".join(doubtful) or None

    @property
    def regression(self) -> bool:
        """Something is slower, and not because of the clock."""
        judged = [row.outcome for row in self.rows] + [tenant.outcome for tenant in self.tenants]
        if self.common is not None:
            judged.append(self.common.outcome)
        return any(outcome.regression for outcome in judged)

    def to_json(self) -> dict[str, Any]:
        """Plain data, stable within a schema version."""
        from cotenant.analyse.comparison.sentences import comparison_sentences

        return document(
            margin=self.margin,
            level=self.level,
            regression=self.regression,
            withheld=self.withheld,
            common=self.common,
            tenants=self.tenants,
            rows=self.rows,
            only_before=self.only_before,
            only_now=self.only_now,
            notes=list(self.notes),
            sentences=comparison_sentences(self),
        )


def compare_pair(
    before: Iterable[TenantEvidence],
    now: Iterable[TenantEvidence],
    *,
    margin: float = MARGIN,
    level: float = LEVEL,
    notes: Sequence[str] = (),
) -> PairComparison:
    """Compare two independent runs: the part common to all tenants, then tenants, then single rows.

    A common part within the margin is normal variation of a machine between two days: it is removed from every block
    before tenants and rows are judged. Beyond the margin it is a change in itself: tenants and rows are judged with it
    included, and their reasons say so. The chance of even a single false `slower` is at most ``level``: half of it goes
    to the rows, half to the tenants and the common part.

    Unless most trials of both runs are valid there are numbers but no verdicts.

    Assumes that `between_runs` captures the variance between runs and that blocks are otherwise independent.
    """
    before, now = list(before), list(now)
    old, new = series_by_row(before), series_by_row(now)
    rows = [row for row in old if row in new]
    refusals = {row: why for row in rows if (why := _refusal(old[row], new[row], margin))}
    subjects = {row: subject(old[row], new[row]) for row in rows if row not in refusals}
    groups = _by_tenant(old, subjects)
    common = common_part([alone_by_tenant(run, subjects) for run in (old, new)], margin)
    part = ComparedPair(*common.runs) if common else None
    between = between_variance([[run[row] for row in subjects] for run in (old, new)], (before, now))
    judged_common = _judged_common(common, subjects, margin, level / 2 / (len(groups) + 1), between)
    moved = judged_common is not None and judged_common.outcome.verdict in {"slower", "faster"}
    of_rows = outcomes(list(subjects.values()), part, margin, level / 2, common_moved=moved, between=between)
    share = level / 2 * len(groups) / (len(groups) + 1)
    of_tenants = outcomes(list(groups.values()), part, margin, share, common_moved=moved, between=between)
    judged = dict(zip(subjects, of_rows, strict=True))
    found = PairComparison(
        rows=tuple(_row(row, old[row], new[row], judged.get(row), refusals.get(row)) for row in rows),
        tenants=tuple(
            TenantChange(of, sum(old[row].of == of for row in subjects), outcome)
            for of, outcome in zip(groups, of_tenants, strict=True)
        ),
        common=judged_common,
        only_before=tuple(row for row in old if row not in new),
        only_now=tuple(row for row in new if row not in old),
        before=quality(before),
        now=quality(now),
        notes=tuple(notes),
        margin=margin,
        level=level,
    )
    return found if found.withheld is None else _without_verdicts(found)


def _without_verdicts(found: PairComparison) -> PairComparison:
    """The same numbers with all verdicts withheld."""
    return replace(
        found,
        rows=tuple(
            replace(row, outcome=withheld(row.outcome)) if row.outcome.p_value is not None else row
            for row in found.rows
        ),
        tenants=tuple(replace(tenant, outcome=withheld(tenant.outcome)) for tenant in found.tenants),
        common=replace(found.common, outcome=withheld(found.common.outcome)) if found.common else None,
    )


def quality(evidence: Iterable[TenantEvidence]) -> Quality:
    """Assess the trials of a run.

    Other work on the machine hardly disturbs comparisons within a block, but those between runs.
    """
    trials = {item.seen.trial: item.seen for item in evidence}.values()
    failed = [_failed_between_runs(seen) for seen in trials]
    checks = Counter(check for checks_of_trial in failed for check in checks_of_trial)
    return Quality(
        trials=len(trials),
        doubtful=sum(
            seen.verdict != "valid" or bool(checks_of_trial)
            for seen, checks_of_trial in zip(trials, failed, strict=True)
        ),
        failed_checks=tuple(name for name, _ in checks.most_common()),
    )


def _failed_between_runs(seen: TenantObservation) -> set[str]:
    crowded = seen.foreign_share is not None and seen.foreign_share >= CROWDED
    return {*seen.failed_checks, *(["quiet_machine"] if crowded else [])}


def _refusal(old: BlockSeries, new: BlockSeries, margin: float) -> tuple[Because, str] | None:
    """Reason why comparing this row would be meaningless, if any."""
    for series, which in ((old, "before"), (new, "now")):
        if not series.time:
            checks = ", ".join(sorted(series.unusable)) or "no request was served"
            return "no usable trial", f"none of the {series.trials} trials {which} can be used ({checks})"
    if old.works != new.works:
        return "other work", _other_work(old, new)
    if old.rate_rps and new.rate_rps and abs(math.log(new.rate_rps / old.rate_rps)) > math.log1p(margin):
        rates = f"{rate(old.rate_rps)} came before and {new.rate_rps:.3g} now"
        return "other rate", f"{rates}; state the rate in requests/s and not as a share of capacity"
    if min(len(old.time), len(new.time)) < 2:
        return "too few blocks", "one block has no interval; run at least 5 blocks each"
    return None


def _other_work(old: BlockSeries, new: BlockSeries) -> str:
    # Sorted as text: numbers and None don't compare.
    a, b = min(old.works, key=repr), min(new.works, key=repr)
    differing = [
        f"{name.replace('_', ' ')} {getattr(a, name)} before and {getattr(b, name)} now"
        for name in a._fields
        if getattr(a, name) != getattr(b, name)
    ]
    return "; ".join(differing) or "its trials differ among themselves"


def _by_tenant(series: Mapping[SeriesRow, BlockSeries], subjects: Mapping[SeriesRow, Subject]) -> dict[str, Subject]:
    """Every tenant of the study with at least two rows whose blocks overlap, pooled into a subject."""
    groups: dict[str, list[Subject]] = {}
    for row, compared in subjects.items():
        if not compared.unserved:
            groups.setdefault(series[row].of, []).append(compared)
    merged = {of: together(parts) for of, parts in groups.items() if len(parts) >= 2}
    return {of: whole for of, whole in merged.items() if min(len(whole.time.before), len(whole.time.now)) >= 2}


def _judged_common(
    common: CommonCells | None, subjects: Mapping[SeriesRow, Subject], margin: float, level: float, between: float
) -> CommonChange | None:
    if common is None:
        return None
    alone = together([compared for row, compared in subjects.items() if row.solo])
    clock, cycles = alone.clock, alone.cycles
    if clock.before and clock.now:
        # In cycles: the common time and the clock of the same blocks.
        cycles = ComparedPair(*(_sum(time, mhz) for time, mhz in zip(common.runs, clock, strict=True)))
    shared = Subject(ComparedPair(*common.runs), cycles, clock)
    [judged] = outcomes([shared], None, margin, level, common_moved=False, between=between)
    return CommonChange(common.tenants, common.alike, judged)


def _sum(first: Logs, second: Logs) -> Logs:
    return {block: log + second[block] for block, log in first.items() if block in second}


def _row(
    row: SeriesRow,
    old: BlockSeries,
    new: BlockSeries,
    judged: ComparisonOutcome | None,
    why: tuple[Because, str] | None,
) -> RowChange:
    before, now = (
        mean_interval([math.exp(log) / 1e6 for log in series.time.values()])
        if series.time
        else Missing("no usable trial")
        for series in (old, new)
    )
    if judged is None:
        assert why is not None
        return RowChange(row, old.of, refused(*why), before, now, why[1])
    detail = ""
    if judged.because == "requests not served":
        detail = f"{percent(old.unserved)} of requests were not served before and {percent(new.unserved)} are not now"
    return RowChange(row, old.of, judged, before, now, detail, token_changes(old, new))
