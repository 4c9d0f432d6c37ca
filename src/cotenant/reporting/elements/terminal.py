"""Elements for a terminal."""

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from cotenant.reporting.elements import (
    COMPUTED,
    SIMULATED,
    DataTable,
    Drawing,
    Element,
    Facts,
    Leaf,
    Remark,
    Section,
    Sentence,
    Sentences,
    TableCell,
    Tone,
    Value,
)
from cotenant.reporting.terminal.grouped import Fitting, Grouped, cell, listing
from cotenant.reporting.terminal.grouped import GroupedRows as Rows
from cotenant.text import literal

NARROWEST = 80
"""Minimum width of a terminal."""
SHORTEST = 16
"""Characters that a text keeps where a line is too long."""
STYLES: dict[Tone, str] = {
    "plain": "",
    "answer": "bold",
    "good": "bold green",
    "bad": "red",
    "open": "yellow",
    "title": "bold underline",
    "quiet": "dim",
}


def to_terminal(elements: Iterable[Element]) -> tuple[RenderableType, ...]:
    """What rich prints, a blank line between elements; sentences that follow each other stay together."""
    parts: list[RenderableType] = []
    lines: list[Text] = []
    for element in elements:
        if isinstance(element, Remark) and element.below and parts and not lines:
            parts[-1] = Lines(parts[-1], Text(literal(element.text), STYLES[element.tone]))
        elif isinstance(element, Sentence) and not isinstance(element, Remark) and element.tone != "title":
            lines.append(Text(literal(element.text), STYLES[element.tone]))
        else:
            parts += [Lines(*lines)] if lines else []
            lines = []
            parts += to_terminal(element.elements) if isinstance(element, Section) else _parts(element)
    return (*parts, Lines(*lines)) if lines else tuple(parts)


def _parts(element: Leaf) -> list[RenderableType]:
    parts: list[RenderableType] = []
    match element:
        case Sentence():
            parts.append(Text(literal(element.text), STYLES[element.tone]))
        case Sentences():
            plain = Text("\n".join(map(literal, element.lines)))
            parts += [*_titled(element.title), plain if element.plain else sentence_list(element.lines)]
        case Facts():
            parts.append(_facts(element))
        case Drawing():
            parts += [*_titled(element.figure.title), _table(element.instead)]
        case DataTable():
            parts.append(_table(element))
    return parts


def _facts(facts: Facts) -> RichTable:
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    if facts.simulated:
        grid.add_row(Text(SIMULATED, "bold reverse magenta"), Text(COMPUTED))
    for name, value in facts.rows:
        grid.add_row(literal(name), Text(literal(value)))
    return grid


def _titled(title: str) -> list[RenderableType]:
    return [Text(literal(title), "bold")] if title else []


def sentence_list(sentences: Sequence[str]) -> RichTable:
    """Sentences as a bulleted list."""
    table = RichTable.grid(padding=(0, 1, 0, 0))
    table.add_column(width=1)
    table.add_column(overflow="fold")
    for line in sentences:
        table.add_row("•", Text(literal(line)))
    return table


def _table(table: DataTable) -> RenderableType:
    if table.groups:
        widths = [table]
        while (narrow := widths[-1].narrow) is not None:
            widths.append(narrow)
        return Fitting([_grouped(width) for width in widths])
    if table.ruled:
        return listing(table.columns, [[_plain(value) for value in row] for row in table.rows])
    if table.cut:
        return _one_line_each(table)
    plain = RichTable(box=None, pad_edge=False, title=literal(table.title) or None, title_justify="left")
    for name in table.columns:
        plain.add_column(literal(name), justify="right" if name in table.numbers else "left", overflow="fold")
    for row in table.rows:
        plain.add_row(*map(_text, row))
    return plain


def _one_line_each(table: DataTable) -> RichTable:
    """Each row on one line of the narrowest terminal, by cutting the longest names."""
    rows = [tuple(map(_text, row)) for row in table.rows]
    widths = {
        name: max(cell_len(text) for text in (literal(name), *(row[number].plain for row in rows)))
        for number, name in enumerate(table.columns)
    }
    excess = sum(widths.values()) + 2 * len(widths) - NARROWEST
    for name in table.cut:
        if name in widths and excess > 0:
            less = min(excess, max(0, widths[name] - SHORTEST))
            widths[name], excess = widths[name] - less, excess - less
    plain = RichTable(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in table.columns:
        plain.add_column(literal(name), overflow="ellipsis", no_wrap=True, max_width=widths[name])
    for row in rows:
        plain.add_row(*row)
    return plain


def _grouped(table: DataTable) -> Grouped:
    sections = [
        Rows(Text(literal(group.heading), "cyan"), tuple(tuple(map(_text, row)) for row in group.rows))
        for group in table.groups
    ]
    return Grouped([literal(name) for name in table.columns], sections)


def _plain(value: Value) -> str | int | float | None:
    return str(value) if isinstance(value, TableCell) else value


def _text(value: Value) -> Text:
    return Text(literal(str(value)), STYLES[value.tone]) if isinstance(value, TableCell) else cell(value)
