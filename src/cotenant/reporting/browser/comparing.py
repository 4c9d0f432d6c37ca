"""A comparison as plain values for a page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cotenant.analyse.comparison.history import History, history_sentences
from cotenant.analyse.comparison.pair import PairComparison
from cotenant.analyse.comparison.sentences import comparison_sentences, row_name, row_reason
from cotenant.analyse.estimates.quantiles import Number
from cotenant.analyse.result import SideBySide
from cotenant.text import NOTHING, figure

Compare = Callable[[Sequence[Path]], PairComparison | History | SideBySide]


@dataclass(frozen=True, slots=True)
class ComparisonLine:
    """One tenant of one cell, or one step of a history."""

    name: str
    since: str
    """In a history: the run in which it first appears."""
    before: str
    now: str
    ratio: str
    verdict: str
    because: str


@dataclass(frozen=True, slots=True)
class Compared:
    """A complete comparison: the answer, then details."""

    regression: bool
    headline: str
    sentences: tuple[str, ...]
    lines: tuple[ComparisonLine, ...]
    history: bool


def compared(comparison: PairComparison | History | SideBySide) -> Compared:
    """A comparison for a page: changes first; for one study on several devices, the decision on each."""
    if isinstance(comparison, SideBySide):
        first, *others = comparison.said
        return Compared(False, first, (*others, *comparison.left_out), (), history=False)
    if isinstance(comparison, History):
        sentences, lines = history_sentences(comparison), _steps(comparison)
    else:
        sentences, lines = comparison_sentences(comparison), _rows(comparison)
    return Compared(comparison.regression, sentences[0], tuple(sentences[1:]), lines, isinstance(comparison, History))


def _rows(comparison: PairComparison) -> tuple[ComparisonLine, ...]:
    order = {"slower": 0, "faster": 1, "ambiguous": 2, "same": 3}
    rows = sorted(comparison.rows, key=lambda row: order[row.outcome.verdict])
    return tuple(
        ComparisonLine(
            row_name(row.row),
            "",
            _ms(row.before_ms),
            _ms(row.now_ms),
            _ratio(row.outcome.total),
            row.outcome.verdict,
            row_reason(row, comparison),
        )
        for row in rows
    )


def _steps(history: History) -> tuple[ComparisonLine, ...]:
    return tuple(
        ComparisonLine(
            row_name(step.row) if step.row else "all tenants alone",
            f"{step.started_utc[:16].replace('T', ' ')}, {step.run}",
            "",
            "",
            _ratio(step.ratio),
            "slower" if step.ratio.est > 1 else "faster",
            "so was the clock" if step.explained_by_clock else "",
        )
        for step in history.steps
    )


def _ms(number: Number) -> str:
    return NOTHING if number.est is None else figure(number.est, 4)


def _ratio(number: Number) -> str:
    if number.est is None:
        return NOTHING
    ends = "no interval" if number.lo is None or number.hi is None else f"[{number.lo:.3f}, {number.hi:.3f}]"
    return f"{number.est:.3f} {ends}"
