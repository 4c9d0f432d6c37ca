"""CSV files read by DuckDB's own reader: fast, but only if every line is perfect.

Any other file, including one with Windows line ends, is left to `lines`, which is slower and reports what is wrong,
where and how often.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.store import damage, parquet
from cotenant.store.imports import lines
from cotenant.store.imports.lines import NOT_THERE, Cell, Table

if TYPE_CHECKING:
    import duckdb

IMPERFECT = "a line is not perfect"
_AROUND = ' "\r\n'
"""Characters stripped from cells."""
_NEVER = r"E'\x01'"
"""NULL marker that no cell can contain, so that an empty cell stays empty."""


@dataclass(frozen=True, slots=True)
class Label:
    """A text column with few distinct values."""

    sql: str
    texts: tuple[str, ...]
    """Sorted."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """The cells to read from such a file, by its header."""

    path: Path
    header: tuple[str, ...]
    cells: Mapping[int, Cell]
    """By position in a line, counted from 1."""
    facts: Mapping[str, Any]
    """Facts stated by the header."""

    def by_lines(self, *, skip_bad: bool) -> Table:
        """Read line by line. Raises DataError with what is wrong, where and how often."""
        return lines.read_lines(
            self.path,
            split="string_split(line, ',')",
            width=len(self.header),
            cells=tuple(self.cells.values()),
            first_line=2,
            skip_bad=skip_bad,
        )

    def labels(self, con: "duckdb.DuckDBPyConnection", names: Collection[str]) -> dict[str, Label] | None:
        """The distinct texts of these cells.

        None if there are no lines, or a required label is missing.
        """
        places = {cell.name: at for at, cell in self.cells.items() if cell.name in names}
        if not places:
            return {}
        lists = ", ".join(f"list(DISTINCT c{at})" for at in places.values())
        [found] = con.execute(f"SELECT {lists} FROM {self._reader()}").fetchall()  # noqa: S608 - our own pieces
        labels = {}
        for (name, at), texts in zip(places.items(), found, strict=True):
            if texts is None or None in texts:
                return None
            different = tuple(sorted({text.strip(_AROUND) for text in texts}))
            if any("\0" in text for text in different) or ("" in different and self.cells[at].required):
                return None
            labels[name] = Label(_least(at, texts), different)
        return labels

    def all_or_error(self, labels: Mapping[str, Label]) -> str:
        """SQL of the rows, one column per cell; the query fails if a line is not perfect.

        Numbers are DOUBLE, NULL if missing; times are BIGINT, in ns; text is trimmed.

        Args:
            labels: Cells with known texts.
        """
        known = {at: labels[cell.name].sql for at, cell in self.cells.items() if cell.name in labels}
        rest = [at for at in self.cells if at not in known]
        values = ", ".join(f"{known.get(at) or self._value(at)} AS v{at}" for at in self.cells)
        named = ", ".join(f"{_there(at, cell)} AS {parquet.quoted(cell.name)}" for at, cell in self.cells.items())
        seen = "".join(f", c{at}" for at in rest)
        failing = f"CASE WHEN {' AND '.join(map(self._good, rest))} THEN true ELSE error('{IMPERFECT}') END"
        rows = f"SELECT {values}{seen} FROM {self._reader()}"  # noqa: S608 - our own pieces
        return f"SELECT {named} FROM ({rows}) WHERE {failing}"  # noqa: S608 - our own pieces and quoted names

    def _reader(self) -> str:
        columns = ", ".join(f"'c{at}': '{self._type(at)}'" for at in range(1, len(self.header) + 1))
        return (
            f"read_csv({parquet.text(damage.literal(self.path))}, columns={{{columns}}}, delim=',', quote='', "
            f"escape='', comment='', header=false, skip=1, auto_detect=false, strict_mode=true, null_padding=false, "
            f"ignore_errors=false, max_line_size=1000000, encoding='utf-8', nullstr={_NEVER})"
        )

    def _type(self, at: int) -> str:
        """The reader parses numbers faster than SQL, but knows neither units nor `[N/A]`."""
        return "DOUBLE" if at in self.cells and _plain_number(self.cells[at]) else "VARCHAR"

    def _text(self, at: int) -> str:
        return self.cells[at].sql.replace(f"parts[{at}]", f"c{at}")

    def _value(self, at: int) -> str:
        """Trimming is the slowest step, so it is only done if parsing fails without it."""
        cell, text = self.cells[at], self._text(at)
        if cell.kind == "time":
            return f"coalesce({lines.time_ns(f'c{at}')}, {lines.time_ns(text)})"
        if cell.kind != "number":
            around = " OR ".join(f"contains(c{at}, {mark})" for mark in ("' '", "'\"'", r"E'\r'", r"E'\n'"))
            return f"CASE WHEN {around} THEN {text} ELSE c{at} END"
        return f"c{at}" if _plain_number(cell) else f"coalesce(TRY_CAST(c{at} AS DOUBLE), TRY_CAST({text} AS DOUBLE))"

    def _good(self, at: int) -> str:
        """Not true, whether false or NULL, if the cell is bad."""
        cell = self.cells[at]
        if cell.kind == "time":
            return f"v{at} IS NOT NULL"
        if cell.kind != "number":
            return f"v{at} <> ''" if cell.required else f"v{at} IS NOT NULL"
        if _plain_number(cell):
            return f"isfinite(v{at})"
        return f"CASE WHEN v{at} IS NULL THEN lower({self._text(at)}) IN {NOT_THERE} ELSE NOT isinf(v{at}) END"


def _least(at: int, texts: Sequence[str]) -> str:
    """SQL that trims these texts of a cell, as little as necessary."""
    if all(text == text.strip(_AROUND) for text in texts):
        return f"c{at}"
    if all(text[:1] == " " and text[1:] == text.strip(_AROUND) for text in texts):
        return f"c{at}[2:]"
    return lines.trimmed(f"c{at}")


def _there(at: int, cell: Cell) -> str:
    """A missing optional number is NULL, also if the file says `nan`."""
    absent = cell.kind == "number" and not cell.required
    return f"CASE WHEN NOT isnan(v{at}) THEN v{at} END" if absent else f"v{at}"


def _plain_number(cell: Cell) -> bool:
    return cell.kind == "number" and cell.required
