"""A comparison of runs: the answer, what changed, what didn't, and why. Terminal, `view` and pull requests show it."""

from collections.abc import Sequence

from cotenant.analyse.comparison import (
    History,
    PairComparison,
    RowChange,
    comparison_sentences,
    history_sentences,
    row_name,
    row_reason,
)
from cotenant.analyse.result import SideBySide
from cotenant.reporting.elements import (
    DataTable,
    Element,
    Remark,
    RowGroup,
    Section,
    Sentence,
    Sentences,
    TableCell,
    Tone,
    Value,
)
from cotenant.reporting.elements.markdown import escaped, to_markdown
from cotenant.reporting.results.decided import side_by_side_elements
from cotenant.tenancy.interval import Number
from cotenant.text import NOTHING, amount, figure, with_interval, without_interval

AnyComparison = PairComparison | History | SideBySide

TONES: dict[str, Tone] = {"slower": "bad", "faster": "good", "same": "quiet", "ambiguous": "open"}
COLUMNS = ("tenant", "before ms", "now ms", "ratio", "verdict")
STEPS = ("since", "run", "cell", "ratio", "step")
ALONE = "alone on the entire device"
INTEREST = ("slower", "faster", "ambiguous", "same")
MOST_ROWS = 8
"""More don't fit a screen beside the sentences."""


def compared_elements(
    comparison: AnyComparison, *, explain: bool = False, everything: bool = True, folded: bool = False
) -> list[Element]:
    """The answer first.

    Args:
        comparison: Two runs, a history of more, or one study on several devices.
        explain: Give the reason of every row.
        everything: Every row; else those of one screen.
        folded: Changes first, and unchanged rows folded.
    """
    if isinstance(comparison, SideBySide):
        return side_by_side_elements(comparison, everything=everything)
    if isinstance(comparison, History):
        return _history(comparison)
    if folded:
        return _folded(comparison, explain=explain)
    return _pair(comparison, explain=explain, everything=everything)


def compared_markdown(comparison: PairComparison | History, *, explain: bool = False) -> str:
    """For a pull request: changes first, unchanged cells folded."""
    if isinstance(comparison, History):
        first, *others = _history(comparison)
        table = [element for element in others if isinstance(element, DataTable)]
        others = [element for element in others if not isinstance(element, DataTable)] + table
    else:
        first, *others = _folded(comparison, explain=explain)
    assert isinstance(first, Sentence)
    return f"### {escaped(first.text)}\n\n{to_markdown(others, level=4)}\n"


def _pair(comparison: PairComparison, *, explain: bool, everything: bool) -> list[Element]:
    answer, *others = comparison_sentences(comparison)
    shown = comparison.rows if everything or explain else _first(comparison.rows)
    elements: list[Element] = [_answer(answer, comparison.regression), _table(shown)]
    if more := len(comparison.rows) - len(shown):
        elements.append(Remark(f"and {amount(more, 'more row')}: --all shows them"))
    if explain:
        why = tuple(f"{row_name(row.row)}: {row_reason(row, comparison)}." for row in comparison.rows)
        elements.append(Sentences(why))
    return [*elements, *([Sentences(tuple(others))] if others else [])]


def _folded(comparison: PairComparison, *, explain: bool) -> list[Element]:
    answer, *others = comparison_sentences(comparison)
    changed = [row for row in comparison.rows if row.outcome.verdict in {"slower", "faster"}]
    rest = [row for row in comparison.rows if row.outcome.verdict not in {"slower", "faster"}]
    elements: list[Element] = [_answer(answer, comparison.regression)]
    elements += [Sentences(tuple(others))] if others else []
    if changed:
        elements.append(_by_cell(changed, comparison, explain=explain))
    if rest:
        table = _by_cell(rest, comparison, explain=explain)
        elements.append(Section(f"{len(rest)} cells without a shown change", "unchanged", (table,), folded=True))
    return elements


def _answer(sentence: str, regression: bool) -> Sentence:
    return Sentence(sentence, "bad" if regression else "answer")


def _first(rows: Sequence[RowChange]) -> tuple[RowChange, ...]:
    """The rows for one screen: those that changed before the others, in their order."""
    if len(rows) <= MOST_ROWS:
        return tuple(rows)
    by_interest = sorted(rows, key=lambda row: INTEREST.index(row.outcome.verdict))
    chosen = {id(row) for row in by_interest[:MOST_ROWS]}
    return tuple(row for row in rows if id(row) in chosen)


def _by_cell(rows: Sequence[RowChange], comparison: PairComparison, *, explain: bool) -> DataTable:
    lines = tuple(
        (
            row_name(row.row),
            *_figures(row),
            _verdict(row),
            *((row_reason(row, comparison),) if explain else ()),
        )
        for row in rows
    )
    columns = ("cell", *COLUMNS[1:], *(("why",) if explain else ()))
    return DataTable(columns, lines, numbers=frozenset({"before ms", "now ms", "ratio"}))


def _table(rows: Sequence[RowChange]) -> DataTable:
    several = len({(row.row.load, row.row.settings) for row in rows}) > 1

    def table(*, intervals: bool) -> DataTable:
        groups: dict[str, list[tuple[Value, ...]]] = {}
        for row in rows:
            heading = ALONE if row.row.solo else f"{row.row.mix}, {row.row.sharing}"
            if several:
                settings = "" if row.row.settings in {"", "{}"} else f", {row.row.settings}"
                heading += f", load {row.row.load}{settings}"
            figures = _figures(row, intervals=intervals)
            groups.setdefault(heading, []).append((row.row.tenant, *figures, _verdict(row)))
        sections = tuple(RowGroup(name, tuple(lines)) for name, lines in groups.items())
        narrow = table(intervals=False) if intervals else None
        return DataTable(COLUMNS, groups=sections, numbers=frozenset(COLUMNS[1:4]), narrow=narrow)

    return table(intervals=True)


def _history(history: History) -> list[Element]:
    answer, *others = history_sentences(history)
    elements: list[Element] = [_answer(answer, history.regression)]
    if history.steps:
        rows = tuple(
            (
                step.started_utc[:16],
                step.run,
                row_name(step.row) if step.row else "all tenants alone",
                _ratio(step.ratio),
                TableCell(
                    ("slower" if step.ratio.est > 1 else "faster") + (" (clock)" if step.explained_by_clock else ""),
                    tone=TONES["slower" if step.ratio.est > 1 else "faster"],
                ),
            )
            for step in history.steps
        )
        elements.append(DataTable(STEPS, rows, "", numbers=frozenset({"ratio"})))
    return [*elements, *([Sentences(tuple(others))] if others else [])]


def _verdict(row: RowChange) -> TableCell:
    outcome = row.outcome
    words = {"the clock": f"{outcome.verdict} (clock)", "not valid": "not valid"}
    return TableCell(words.get(outcome.because, outcome.verdict), tone=TONES[outcome.verdict])


def _figures(row: RowChange, *, intervals: bool = True) -> tuple[str, str, str]:
    """Both times and their ratio; nothing where the trials behind them are not valid."""
    if row.outcome.because == "not valid":
        return NOTHING, NOTHING, NOTHING
    total = row.outcome.total
    before, now = (without_interval(number, lambda value: figure(value, 4)) for number in (row.before_ms, row.now_ms))
    return before, now, _ratio(total) if intervals else without_interval(total, _thousandths)


def _ratio(number: Number) -> str:
    return with_interval(number, _thousandths)


def _thousandths(value: float) -> str:
    return f"{value:.3f}"
