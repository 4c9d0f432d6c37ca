"""A comparison of runs for a terminal and for a pull request."""

from collections.abc import Sequence
from dataclasses import replace

from rich.console import Group, RenderableType
from rich.text import Text

from cotenant.analyse.comparison.history import History, history_sentences
from cotenant.analyse.comparison.pair import PairComparison, RowChange
from cotenant.analyse.comparison.sentences import comparison_sentences, row_name, row_reason
from cotenant.analyse.estimates.quantiles import Number
from cotenant.reporting.terminal import markdown
from cotenant.reporting.terminal.grouped import Fitting, Grouped, Section, listing
from cotenant.reporting.terminal.literal import literal
from cotenant.reporting.terminal.tables import sentence_list
from cotenant.text import amount, figure, with_interval, without_interval

STYLES = {"slower": "bold red", "faster": "green", "same": "dim", "ambiguous": "yellow"}
COLUMNS = ("tenant", "before ms", "now ms", "ratio", "verdict")
ALONE = "alone on the entire device"
INTEREST = ("slower", "faster", "ambiguous", "same")
MOST_ROWS = 8
"""More don't fit a screen beside the sentences."""


def comparison_parts(
    comparison: PairComparison, *, explain: bool = False, everything: bool = False
) -> tuple[RenderableType, ...]:
    """The answer, the rows that matter most, the other sentences; with ``explain`` the reason of every row."""
    answer, *others = comparison_sentences(comparison)
    shown = comparison.rows if everything or explain else _first(comparison.rows)
    table: RenderableType = _table(replace(comparison, rows=shown))
    if more := len(comparison.rows) - len(shown):
        table = Group(table, Text(f"and {amount(more, 'more row')}: --all shows them", "dim"))
    why = [f"{row_name(row.row)}: {row_reason(row, comparison)}." for row in comparison.rows] if explain else []
    lists = [sentence_list(sentences) for sentences in (why, others) if sentences]
    return (Text(literal(answer), "bold"), table, *lists)


def _first(rows: Sequence[RowChange]) -> tuple[RowChange, ...]:
    """The rows for one screen: those that changed before the others, in their order."""
    if len(rows) <= MOST_ROWS:
        return tuple(rows)
    by_interest = sorted(rows, key=lambda row: INTEREST.index(row.outcome.verdict))
    chosen = {id(row) for row in by_interest[:MOST_ROWS]}
    return tuple(row for row in rows if id(row) in chosen)


def comparison_markdown(comparison: PairComparison, *, explain: bool = False) -> str:
    """Changes first, unchanged cells folded."""
    sentences = comparison_sentences(comparison)
    parts = [f"### {markdown.escaped(sentences[0])}\n", markdown.bullets(sentences[1:])]
    head = ("cell", "before ms", "now ms", "ratio", "verdict", *(("why",) if explain else ()))

    def lines(rows: Sequence[RowChange]) -> str:
        return markdown.table(
            head,
            [
                (
                    row_name(row.row),
                    _short(row.before_ms),
                    _short(row.now_ms),
                    _ratio(row.outcome.total),
                    _verdict(row),
                    *((row_reason(row, comparison),) if explain else ()),
                )
                for row in rows
            ],
        )

    changed = [row for row in comparison.rows if row.outcome.verdict in {"slower", "faster"}]
    others = [row for row in comparison.rows if row.outcome.verdict not in {"slower", "faster"}]
    if changed:
        parts.append(lines(changed))
    if others:
        title = f"{len(others)} cells without a shown change"
        parts.append(f"<details><summary>{title}</summary>\n\n{lines(others)}\n</details>\n")
    return "\n".join(parts)


def history_parts(history: History) -> tuple[RenderableType, ...]:
    """The answer, every step, and the other sentences."""
    answer, *others = history_sentences(history)
    parts: list[RenderableType] = [Text(literal(answer), "bold")]
    parts += [listing(*_steps(history))] if history.steps else []
    return (*parts, sentence_list(others)) if others else tuple(parts)


def history_markdown(history: History) -> str:
    """The same for a pull request."""
    sentences = history_sentences(history)
    parts = [f"### {markdown.escaped(sentences[0])}\n", markdown.bullets(sentences[1:])]
    if history.steps:
        parts.append(markdown.table(*_steps(history)))
    return "\n".join(parts)


def _steps(history: History) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    rows: list[tuple[str, ...]] = [
        (
            step.started_utc[:16],
            step.run,
            row_name(step.row) if step.row else "all tenants alone",
            _ratio(step.ratio),
            ("slower" if step.ratio.est > 1 else "faster") + (" (clock)" if step.explained_by_clock else ""),
        )
        for step in history.steps
    ]
    return ("since", "run", "cell", "ratio", "step"), rows


def _table(comparison: PairComparison) -> Fitting:
    def table(*, intervals: bool) -> Grouped:
        sections: dict[str, list[tuple[Text, ...]]] = {}
        several = len({(row.row.load, row.row.settings) for row in comparison.rows}) > 1
        for row in comparison.rows:
            heading = ALONE if row.row.solo else f"{row.row.mix}, {row.row.sharing}"
            if several:
                settings = "" if row.row.settings in {"", "{}"} else f", {row.row.settings}"
                heading += f", load {row.row.load}{settings}"
            sections.setdefault(heading, []).append(
                (
                    Text(literal(row.row.tenant)),
                    Text(_short(row.before_ms)),
                    Text(_short(row.now_ms)),
                    Text(_ratio(row.outcome.total) if intervals else _ratio_alone(row.outcome.total)),
                    Text(_verdict(row), STYLES[row.outcome.verdict]),
                )
            )
        return Grouped(COLUMNS, [Section(Text(literal(name), "cyan"), tuple(rows)) for name, rows in sections.items()])

    return Fitting((table(intervals=True), table(intervals=False)))


def _verdict(row: RowChange) -> str:
    outcome = row.outcome
    return f"{outcome.verdict} (clock)" if outcome.because == "the clock" else outcome.verdict


def _short(number: Number) -> str:
    return without_interval(number, lambda value: figure(value, 4))


def _ratio(number: Number) -> str:
    return with_interval(number, _thousandths)


def _ratio_alone(number: Number) -> str:
    return without_interval(number, _thousandths)


def _thousandths(value: float) -> str:
    return f"{value:.3f}"
