"""Many runs over time: when did each tenant's level change?"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cotenant.analyse.comparison.changes import LEVEL, MARGIN
from cotenant.analyse.comparison.outcomes import CLOCK_MOVED
from cotenant.analyse.comparison.pair import quality
from cotenant.analyse.comparison.sentences import row_name
from cotenant.analyse.comparison.series import (
    BlockSeries,
    SeriesRow,
    alone_by_tenant,
    common_part,
    pooled,
    series_by_row,
)
from cotenant.analyse.estimates.distributions import student_t
from cotenant.analyse.estimates.intervals import Floats
from cotenant.analyse.estimates.warmup import Step, find_steps, noise_of, penalty
from cotenant.analyse.sharing.evidence import Logs, TenantEvidence, relative_to
from cotenant.analyse.tabular import document, fields_of
from cotenant.tenancy.interval import Estimate, Missing, Number

FEWEST_RUNS = 3
LEAST_NOISE = 0.003
"""Smallest noise assumed for a run's level: a few runs may agree better than runs usually do."""


@dataclass(frozen=True, slots=True)
class RowStep:
    """A change of level of a row."""

    row: SeriesRow | None
    """None for the part common to all tenants."""
    run: str
    """The first run at the new level."""
    started_utc: str
    ratio: Estimate
    """Level from then on / level before."""
    cycles: Number
    last: bool
    """The row has no later step, so this level still holds."""
    explained_by_clock: bool

    @property
    def regression(self) -> bool:
        """It became slower, still is, and the clock does not explain it."""
        return self.last and self.ratio.est > 1 and not self.explained_by_clock

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        row = self.row.to_json() if self.row else {"mix": None, "tenant": None}
        return row | fields_of(self, "regression", without=("row",), cycles="cycles_ratio")


@dataclass(frozen=True, slots=True)
class History:
    """Runs in order of time, and every step."""

    runs: tuple[tuple[str, str], ...]
    """Identity and start time of each run."""
    rows: int
    """Rows present in every run."""
    steps: tuple[RowStep, ...]
    noise: float
    """Relative standard deviation of a run's level around the truth."""
    left_out: tuple[str, ...]
    """Rows that are missing from some run or that do different work there."""
    notes: tuple[str, ...]
    margin: float
    level: float

    @property
    def regression(self) -> bool:
        """A row became slower and still is."""
        return any(step.regression for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        """Plain data, stable within a schema version."""
        return document(
            margin=self.margin,
            level=self.level,
            regression=self.regression,
            runs=[{"run": run, "started_utc": utc} for run, utc in self.runs],
            rows=self.rows,
            noise=self.noise,
            steps=self.steps,
            left_out=list(self.left_out),
            notes=list(self.notes),
            sentences=history_sentences(self),
        )


def compare_history(
    evidence: Iterable[TenantEvidence], *, margin: float = MARGIN, level: float = LEVEL, notes: Sequence[str] = ()
) -> History:
    """Find the steps of every row over three or more runs.

    Runs are the replicates: a run's level is the mean over its blocks. The variation between runs without a change is
    estimated from all rows together. Steps below the margin are not reported. The chance of reporting a step where
    there is none is at most ``level`` over all rows.
    """
    by_run: dict[str, list[TenantEvidence]] = {}
    for item in evidence:
        by_run.setdefault(item.seen.run, []).append(item)
    started = {run: min(item.started_utc for item in items) for run, items in by_run.items()}
    order = sorted(by_run, key=lambda run: (started[run], run))
    if len(order) < FEWEST_RUNS:
        raise ValueError(f"a history needs {FEWEST_RUNS} runs")
    runs = [series_by_row(by_run[run]) for run in order]
    every = list(dict.fromkeys(row for run in runs for row in run))
    rows = [row for row in every if _same_work([run.get(row) for run in runs])]
    common = common_part([alone_by_tenant(run, rows) for run in runs], margin)
    levels = {row: _levels([run[row].time for run in runs], common.runs if common else None) for row in rows}
    noise = max(noise_of(list(levels.values())), LEAST_NOISE)
    series: dict[SeriesRow | None, Floats] = {row: levels[row] for row in rows}
    if common is not None:
        series[None] = _levels(common.runs, None)
    df = max(1.0, 0.37 * (len(order) - 1))  # degrees of freedom of a spread estimated from the median of differences
    cost = penalty(len(order), len(series), max(df * math.sqrt(len(series)), 4.0), level)
    steps: list[RowStep] = []
    for row, values in series.items():
        found = find_steps(values, noise, cost, math.log1p(margin))
        clocks = _clocks(runs, row)
        steps += [
            _step(row, step, found[-1] is step, clocks, runs=(order, started), df=df * len(series), margin=margin)
            for step in found
        ]
    return History(
        runs=tuple((run, started[run]) for run in order),
        rows=len(rows),
        steps=tuple(sorted(steps, key=lambda step: (step.started_utc, step.row is not None))),
        noise=noise,
        left_out=tuple(
            dict.fromkeys(f"{row.tenant} in {row.mix} ({row.sharing})" for row in every if row not in levels)
        ),
        notes=tuple(notes),
        margin=margin,
        level=level,
    )


def _same_work(series: Sequence[BlockSeries | None]) -> bool:
    works = {blocks.works if blocks is not None and blocks.time else None for blocks in series}
    return (
        None not in works and len(works) == 1 and not any(blocks is not None and blocks.overloaded for blocks in series)
    )


def _levels(runs: Sequence[Logs], common: Sequence[Logs] | None) -> Floats:
    """One number per run, minus the common part, if any."""
    own = [(relative_to(run, shared) or run) for run, shared in zip(runs, common or [{}] * len(runs), strict=True)]
    return np.asarray([statistics.fmean(run.values()) for run in own])


def _clocks(runs: Sequence[Mapping[SeriesRow, BlockSeries]], row: SeriesRow | None) -> Floats | None:
    """Logarithm of the clock in each run."""
    if row is not None:
        of_row = [run[row].clock for run in runs]
    else:
        of_row = [pooled([series.clock for at, series in run.items() if at.solo]) for run in runs]
    if not all(of_row):
        return None
    return np.asarray([statistics.fmean(run.values()) for run in of_row])


def _step(
    row: SeriesRow | None,
    step: Step,
    last: bool,
    clocks: Floats | None,
    *,
    runs: tuple[Sequence[str], Mapping[str, str]],
    df: float,
    margin: float,
) -> RowStep:
    order, started = runs
    size = step.after - step.before
    half = student_t(max(df, 1.0)) * step.error
    ratio = _ratio(size, half, len(order))
    cycles: Number = Missing("no clock sensor in every run")
    excused = False
    if clocks is not None:
        clock = float(clocks[step.at :].mean() - clocks[: step.at].mean())
        cycles = _ratio(size + clock, half, len(order))
        excused = size > 0 and clock < math.log(1 - CLOCK_MOVED) and size + clock < math.log1p(margin)
    run = order[step.at]
    return RowStep(row, run, started[run], ratio, cycles, last, excused)


def _ratio(log: float, half: float, runs: int) -> Estimate:
    return Estimate(math.exp(log), math.exp(log - half), math.exp(log + half), runs, "levels of a partition of runs")


# --- A history of runs in sentences that quote their numbers

MOST_ROWS = 5


def history_sentences(found: History) -> list[str]:
    """The answer, then each run at which something changed, then what was left out."""
    steps: dict[str, list[RowStep]] = {}
    for step in found.steps:
        steps.setdefault(step.run, []).append(step)
    span = f"over {len(found.runs)} runs ({found.runs[0][1][:10]} to {found.runs[-1][1][:10]})"
    lines = [
        f"Slower than before, and still so: {_who(found)} {span}."
        if found.regression
        else f"No cell became and stayed slower {span}.",
        (
            f"{found.rows} cells; without a change the level of a cell differs by {found.noise * 100:.2g} % from run "
            f"to run, and steps below {found.margin * 100:.3g} % are not reported."
        ),
    ]
    for run, together in steps.items():
        lines += _at(run, together)
    if found.left_out:
        lines.append(
            f"{len(found.left_out)} cells are not in every run with the same work and without overload, e.g. "
            f"{found.left_out[0]}."
        )
    return [*lines, *found.notes]


def _who(found: History) -> str:
    rows = [step for step in found.steps if step.regression]
    if any(step.row is None for step in rows):
        return "everything, by about as much"
    tenants = list(dict.fromkeys(step.row.tenant for step in rows if step.row))
    return f"{' and '.join(tenants[:MOST_ROWS])}, {len(rows)} of {found.rows} cells"


def _at(run: str, steps: list[RowStep]) -> Iterable[str]:
    for step in sorted(steps, key=lambda step: -abs(step.ratio.est - 1))[:MOST_ROWS]:
        what = row_name(step.row) if step.row else "what all tenants alone have in common"
        way = "slower" if step.ratio.est > 1 else "faster"
        clock = ", but so was the clock: not the code" if step.explained_by_clock else ""
        later = "" if step.last else ", until a later step"
        yield (
            f"From run {run} ({step.started_utc[:16]}) on, {what} is {step.ratio.est:.3f}x "
            f"[{step.ratio.lo:.3f}, {step.ratio.hi:.3f}], {way}{clock}{later}."
        )
    if len(steps) > MOST_ROWS:
        yield f"{len(steps) - MOST_ROWS} more cells changed at run {run}."


def mostly_valid(everything: Sequence[TenantEvidence]) -> tuple[list[TenantEvidence], list[str]]:
    """Evidence of the runs whose trials are mostly valid, and a sentence for each run that was left out."""
    by_run: dict[str, list[TenantEvidence]] = {}
    for item in everything:
        by_run.setdefault(item.seen.run, []).append(item)
    kept, said = [], []
    for run, items in by_run.items():
        found = quality(items)
        if found.mostly_valid:
            kept += items
        else:
            checks = ", ".join(found.failed_checks)
            said.append(f"Run {run} was left out: {found.doubtful} of {found.trials} trials are not valid ({checks}).")
    return kept, said
