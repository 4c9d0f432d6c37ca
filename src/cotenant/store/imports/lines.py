"""Read large text files line by line through DuckDB, without a Python object per cell.

Every line of the file is a row, so that a row's position is its line number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cotenant import opening
from cotenant.errors import DataError
from cotenant.store import damage, parquet
from cotenant.store.imports.result import Problems, Skipped
from cotenant.tenancy.records import Columns

MEMORY_LIMIT = "512MiB"
MOST_CATEGORIES = 20_000
BLANK, WRONG_LENGTH, FIRST_CELL = 1, 2, 10
"""Codes of lines: a blank one is fine, a wrong number of cells is not; cells count from the last code."""

_TIMES = "['%Y/%m/%d %H:%M:%S.%g', '%Y/%m/%d %H:%M:%S', '%m-%d-%Y %H:%M:%S', '%Y-%m-%d %H:%M:%S.%g']"
NOT_THERE = "('', 'n/a', '[n/a]', '-', 'nan', '[not supported]', '[unknown error]', '[gpu requires reset]', 'null')"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of each line: its position and type."""

    name: str
    """The name of its column."""
    label: str
    """The file's name for it."""
    sql: str
    """An expression over `parts`, the list of the line's cells."""
    kind: Literal["number", "text", "time", "category"]
    """A category is text with few distinct values, stored as indices into `Table.categories`."""
    required: bool = True
    """False if it may be empty."""


@dataclass(frozen=True, slots=True)
class Table:
    """The usable lines of a file, in columns."""

    columns: Columns
    categories: Mapping[str, tuple[str, ...]]
    skipped: tuple[Skipped, ...]


def head(path: Path, lines: int) -> list[str]:
    """The first lines of a file. Raises DataError if it can't be read or isn't text."""
    try:
        with opening.open_file(path, most=opening.TABLE_BYTES) as file:
            start = file.read(1 << 16)
    except OSError as error:
        raise DataError(f"{path} can't be read: {opening.why(error)}.", hint="check the path") from None
    return start.decode("utf-8-sig", errors="replace").splitlines()[:lines]


def read_lines(
    path: Path,
    *,
    split: str,
    width: int | None,
    cells: Sequence[Cell],
    ignore: str = "false",
    first_line: int = 1,
    skip_bad: bool,
) -> Table:
    """Read the lines of a file from ``first_line`` on.

    Args:
        path: The file.
        split: SQL that splits `line` into a list of cells.
        width: Required number of cells; None: any.
        cells: Cells to read.
        ignore: SQL over `line`, true for lines without data (headers).
        first_line: First line of data, counted from 1.
        skip_bad: Skip and count bad lines. A truncated last line is always skipped.

    Raises:
        DataError: Some lines can't be used; states what, where and how many.
    """
    source = _Source(path, split, first_line, tolerant=skip_bad)
    categories = {cell.name: source.different(cell) for cell in cells if cell.kind == "category"}
    fetched = source.ask(_question(width, cells, ignore, categories))
    codes = np.asarray(fetched.pop("code"), np.int8)
    problems, cut = Problems(), Problems()
    if codes.size and codes[-1] > BLANK and not _ends_with_newline(path):
        cut.add("the last line was truncated", [first_line + codes.size - 1])
        codes[-1] = BLANK
    for number, cell in enumerate(cells):
        if cell.kind == "number":  # `inf` and `nan` are numbers in SQL, but not readings
            values = np.ma.getdata(fetched[cell.name])
            unreal = np.isinf(values) | (np.isnan(values) if cell.required else False)
            codes[(codes == 0) & unreal] = FIRST_CELL + number
    words = {WRONG_LENGTH: f"not {width} cells"}
    words |= {FIRST_CELL + number: _complaint(cell) for number, cell in enumerate(cells)}
    problems.add_codes(codes, words, first_line)
    skipped = problems.settle(path, skip_bad=skip_bad) + cut.settle(path, skip_bad=True)
    good = codes == 0
    columns: dict[str, npt.NDArray[Any]] = {}
    for cell in cells:
        values = _plain(fetched.pop(cell.name), cell.kind)
        columns[cell.name] = values if good.all() else values[good]
    return Table(columns, categories, skipped)


def text_cell(position: int) -> str:
    """SQL of a cell without surrounding blanks and quotes; positions count from 1."""
    return trimmed(f"parts[{position}]")


def trimmed(text: str) -> str:
    """SQL of a text without surrounding blanks, quotes and line ends (of files converted twice)."""
    return f"trim({text}, E' \"\\r\\n')"


def time_ns(text: str) -> str:
    """SQL of a time in nanoseconds since 1970; NULL if invalid."""
    return f"epoch_ns(try_strptime({text}, {_TIMES}))"


def _complaint(cell: Cell) -> str:
    what = {"number": "not a number", "time": "not a time"}.get(cell.kind, "empty")
    return f"{cell.label} is {what}"


def _question(width: int | None, cells: Sequence[Cell], ignore: str, categories: Mapping[str, tuple[str, ...]]) -> str:
    """Step by step, so that nothing is computed twice: line, its parts, cells as text, values, problems."""
    numbered = list(enumerate(cells))
    texts = ", ".join(f"{cell.sql} AS c{n}" for n, cell in numbered)
    values = ", ".join(f"{_value(cell, f'c{n}', categories)} AS v{n}" for n, cell in numbered)
    named = ", ".join(f"v{n} AS {parquet.quoted(cell.name)}" for n, cell in numbered)
    wrong = " ".join(f"WHEN {_is_bad(cell, n)} THEN {FIRST_CELL + n}" for n, cell in numbered if _can_be_bad(cell))
    length = "" if width is None else f"WHEN len(parts) <> {width} THEN {WRONG_LENGTH}"
    shape = f"CASE WHEN line IS NULL OR trim(line) = '' OR ({ignore}) THEN {BLANK} {length} ELSE 0 END"
    return f"""
        SELECT CAST(CASE WHEN shape > 0 THEN shape {wrong} ELSE 0 END AS TINYINT) AS code, {named}
        FROM (SELECT *, {values} FROM (SELECT {shape} AS shape, {texts} FROM {{lines}}))"""  # noqa: S608 - our own pieces


def _can_be_bad(cell: Cell) -> bool:
    return cell.required or cell.kind != "text"


def _is_bad(cell: Cell, number: int) -> str:
    if cell.kind == "text":
        return f"c{number} = ''"
    absent = "" if cell.required else f" AND lower(c{number}) NOT IN {NOT_THERE}"
    return f"v{number} IS NULL{absent}"


def _value(cell: Cell, text: str, categories: Mapping[str, tuple[str, ...]]) -> str:
    if cell.kind == "text":
        return text
    if cell.kind == "time":
        return time_ns(text)
    if cell.kind == "category":
        names = ", ".join(map(parquet.text, categories[cell.name]))
        return f"CAST(enum_code(TRY_CAST({text} AS ENUM ({names}))) AS INTEGER)" if names else "CAST(NULL AS INTEGER)"
    return f"TRY_CAST({text} AS DOUBLE)"


class _Source:
    """The lines of a file from one on, as read by DuckDB."""

    def __init__(self, path: Path, split: str, first_line: int, *, tolerant: bool) -> None:
        self._path, self._tolerant, self._encoding = path, tolerant, "utf-8"
        options = (
            "columns={'line': 'VARCHAR'}, delim=E'\\x01', quote='', escape='', comment='', header=false, "
            f"auto_detect=false, strict_mode=false, max_line_size=1000000, skip={first_line - 1}, encoding={{encoding}}"
        )
        self._lines = f"(SELECT line, {split} AS parts FROM read_csv(?, {options}))"  # noqa: S608 - our own pieces

    def different(self, cell: Cell) -> tuple[str, ...]:
        """The distinct values of a category, sorted. Raises DataError if there are too many."""
        found = self.ask(
            f"SELECT DISTINCT {cell.sql} AS name FROM {{lines}} WHERE {cell.sql} <> '' "  # noqa: S608 - our own
            f"LIMIT {MOST_CATEGORIES + 1}"
        )["name"]
        if len(found) > MOST_CATEGORIES:
            raise DataError(
                f"{self._path} has more than {MOST_CATEGORIES:,} different values of {cell.label}.",
                hint="check that it is the file written by the tool",
            )
        return tuple(sorted(str(name) for name in found))

    def ask(self, question: str) -> dict[str, npt.NDArray[Any]]:
        """The result in columns; `{lines}` in the query is the file."""
        import duckdb

        try:
            return self._ask(question)
        except duckdb.Error as error:
            if self._tolerant and self._encoding == "utf-8" and "utf-8" in str(error):
                self._encoding = "latin-1"  # nearly every byte is a letter there: the line then fails on its content
                return self.ask(question)
            first = str(error).splitlines()[0].partition("Error: ")[2] or str(error).splitlines()[0]
            raise DataError(
                f"{self._path} can't be read as text: {first}.", hint="check that it is the file written by the tool"
            ) from None

    def _ask(self, question: str) -> dict[str, npt.NDArray[Any]]:
        lines = self._lines.replace("{encoding}", parquet.text(self._encoding))
        # One thread: a row's position is its line number, and two threads don't preserve the order of a large file.
        with parquet.memory(memory_limit=MEMORY_LIMIT, threads=1) as con:
            answer = con.execute(question.replace("{lines}", lines), [damage.literal(self._path)])
            found: dict[str, npt.NDArray[Any]] = answer.fetchnumpy()
            return found


def _plain(column: npt.NDArray[Any], kind: str) -> npt.NDArray[Any]:
    """DuckDB masks NULLs; ours are NaN and None."""
    if isinstance(column, np.ma.MaskedArray):
        fill: Any = {"number": np.nan, "text": None}.get(kind, -1)
        column = column.filled(fill)
    return column.astype(np.float64, copy=False) if kind == "number" else column


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) in b"\r\n"
