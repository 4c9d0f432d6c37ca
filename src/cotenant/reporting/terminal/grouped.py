"""A table with rows grouped under headings that may span the page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from cotenant.text import NOTHING, literal

INDENT, GAP = 2, 2
NARROWEST_NAME = 8


@dataclass(frozen=True, slots=True)
class GroupedRows:
    """A heading (an empty one takes no line) and its rows."""

    heading: Text
    rows: tuple[tuple[Text, ...], ...]


@dataclass(frozen=True, slots=True)
class Grouped:
    """Left-aligned names in the first column, wrapped if necessary; the others are right-aligned and never wrapped."""

    columns: Sequence[str]
    sections: Sequence[GroupedRows]

    @property
    def width(self) -> int:
        """Width that shows every row on one line."""
        return _total(self._widths())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """All sections share their column widths, so that numbers align."""
        widths = self._widths()
        widths[0] = min(widths[0], max(NARROWEST_NAME, options.max_width - _total([0, *widths[1:]])))
        yield _rows(widths, [tuple(Text(title, "bold") for title in self.columns)])
        for section in self.sections:
            if section.heading:
                yield section.heading
            yield _rows(widths, section.rows)

    def _widths(self) -> list[int]:
        rows = [row for section in self.sections for row in section.rows]
        return [
            max([cell_len(title), *(cell_len(row[i].plain) for row in rows)]) for i, title in enumerate(self.columns)
        ]


@dataclass(frozen=True, slots=True)
class Fitting:
    """The same table in several widths: shows the first that fits, else the last."""

    alternatives: Sequence[Grouped]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Decided once the page width is known."""
        yield next((table for table in self.alternatives if table.width <= options.max_width), self.alternatives[-1])


def _total(widths: Sequence[int]) -> int:
    return INDENT + sum(widths) + GAP * (len(widths) - 1)


def _rows(widths: Sequence[int], rows: Sequence[tuple[Text, ...]]) -> Table:
    table = Table.grid(padding=(0, GAP, 0, 0), pad_edge=False)
    table.add_column(width=0)  # its padding is the indent
    for position, width in enumerate(widths):
        table.add_column(width=width, justify="right" if position else "left", overflow="fold")
    for row in rows:
        table.add_row("", *row)
    return table


# --- rows under column names

COLUMN_GAP = 3
"""Spaces between two columns."""


def listing(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A plain table with right-aligned numbers and unformatted text."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for index, name in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[index], int | float | None) for row in rows)
        table.add_column(Text(literal(name)), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    return table


def cell(value: Any) -> Text:
    """A value formatted for a table."""
    match value:
        case None:
            return Text(NOTHING, "dim")
        case float():
            return Text(f"{value:.6g}")
        case list() | tuple():
            return Text(literal(", ".join(str(item) for item in value)))
    return Text(literal(str(value)))
