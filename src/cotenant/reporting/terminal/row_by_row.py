"""Rows with more columns than fit side by side: each row under its number, one line per column."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from cotenant.reporting.terminal.listing import GAP, cell, listing
from cotenant.reporting.terminal.literal import literal


class QueryAnswer:
    """A table if its column names fit on a line, else row by row."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self._columns, self._rows = columns, rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        names = [literal(name) for name in self._columns]
        if not self._rows or sum(map(len, names)) + GAP * (len(names) - 1) <= options.max_width:
            yield listing(self._columns, self._rows)
            return
        for number, row in enumerate(self._rows, start=1):
            yield Text(f"row {number}", "bold")
            grid = Table.grid(padding=(0, 2))
            grid.add_column(no_wrap=True)
            grid.add_column(overflow="fold")
            for name, value in zip(names, row, strict=True):
                grid.add_row(Text(f"  {name}"), cell(value))
            yield grid
