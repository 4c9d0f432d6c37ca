"""Rows under column names."""

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from cotenant.reporting.terminal.literal import literal
from cotenant.text import NOTHING

GAP = 3
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
