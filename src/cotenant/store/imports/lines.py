"""Read large text files line by line through DuckDB, without a Python object per cell.

Every line of the file is a row, so that a row's position is its line number.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from cotenant import opening
from cotenant.errors import DataError
from cotenant.store import damage, parquet
from cotenant.store.imports.result import Problems, Skipped
from cotenant.tenancy.records import Columns

if TYPE_CHECKING:
    import duckdb


MEMORY_LIMIT = "512MiB"
MOST_CATEGORIES = 20_000
BLANK, WRONG_LENGTH, FIRST_CELL = 1, 2, 10
"""Codes of lines: a blank line is fine, a wrong number of cells is not; cells count from the last code."""

_TIMES = "['%Y/%m/%d %H:%M:%S.%g', '%Y/%m/%d %H:%M:%S', '%m-%d-%Y %H:%M:%S', '%Y-%m-%d %H:%M:%S.%g']"
NOT_THERE = "('', 'n/a', '[n/a]', '-', 'nan', '[not supported]', '[unknown error]', '[gpu requires reset]', 'null')"


@dataclass(frozen=True, slots=True)
class SheetCell:
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
class LineTable:
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
    cells: Sequence[SheetCell],
    ignore: str = "false",
    first_line: int = 1,
    skip_bad: bool,
) -> LineTable:
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
    return LineTable(columns, categories, skipped)


def text_cell(position: int) -> str:
    """SQL of a cell without surrounding blanks and quotes; positions count from 1."""
    return trimmed(f"parts[{position}]")


def trimmed(text: str) -> str:
    """SQL of a text without surrounding blanks, quotes and line ends (of files converted twice)."""
    return f"trim({text}, E' \"\\r\\n')"


def time_ns(text: str) -> str:
    """SQL of a time in nanoseconds since 1970; NULL if invalid."""
    return f"epoch_ns(try_strptime({text}, {_TIMES}))"


def _complaint(cell: SheetCell) -> str:
    what = {"number": "not a number", "time": "not a time"}.get(cell.kind, "empty")
    return f"{cell.label} is {what}"


def _question(
    width: int | None, cells: Sequence[SheetCell], ignore: str, categories: Mapping[str, tuple[str, ...]]
) -> str:
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


def _can_be_bad(cell: SheetCell) -> bool:
    return cell.required or cell.kind != "text"


def _is_bad(cell: SheetCell, number: int) -> str:
    if cell.kind == "text":
        return f"c{number} = ''"
    absent = "" if cell.required else f" AND lower(c{number}) NOT IN {NOT_THERE}"
    return f"v{number} IS NULL{absent}"


def _value(cell: SheetCell, text: str, categories: Mapping[str, tuple[str, ...]]) -> str:
    if cell.kind == "text":
        return text
    if cell.kind == "time":
        return time_ns(text)
    if cell.kind == "category":
        names = ", ".join(map(parquet.text, categories[cell.name]))
        return f"CAST(enum_code(TRY_CAST({text} AS ENUM ({names}))) AS INTEGER)" if names else "CAST(NULL AS INTEGER)"
    return f"TRY_CAST({text} AS DOUBLE)"


class _Source:
    """The lines of a file from a given line on, as read by DuckDB."""

    def __init__(self, path: Path, split: str, first_line: int, *, tolerant: bool) -> None:
        self._path, self._tolerant, self._encoding = path, tolerant, "utf-8"
        options = (
            "columns={'line': 'VARCHAR'}, delim=E'\\x01', quote='', escape='', comment='', header=false, "
            f"auto_detect=false, strict_mode=false, max_line_size=1000000, skip={first_line - 1}, encoding={{encoding}}"
        )
        self._lines = f"(SELECT line, {split} AS parts FROM read_csv(?, {options}))"  # noqa: S608 - our own pieces

    def different(self, cell: SheetCell) -> tuple[str, ...]:
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


# --- CSV files read by DuckDB's own reader: fast, but only if every line is perfect

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
    cells: Mapping[int, SheetCell]
    """By position in a line, counted from 1."""
    facts: Mapping[str, Any]
    """Facts stated by the header."""

    def by_lines(self, *, skip_bad: bool) -> LineTable:
        """Read line by line. Raises DataError with what is wrong, where and how often."""
        return read_lines(
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
        """SQL of the rows, a column per cell; the query fails if a line is not perfect.

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
            return f"coalesce({time_ns(f'c{at}')}, {time_ns(text)})"
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
    return trimmed(f"c{at}")


def _there(at: int, cell: SheetCell) -> str:
    """A missing optional number is NULL, also if the file says `nan`."""
    absent = cell.kind == "number" and not cell.required
    return f"CASE WHEN NOT isnan(v{at}) THEN v{at} END" if absent else f"v{at}"


def _plain_number(cell: SheetCell) -> bool:
    return cell.kind == "number" and cell.required
