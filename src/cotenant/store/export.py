"""Export a table of any number of runs as a single file: CSV, JSON or Parquet."""

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from cotenant.errors import QueryError, RunFolderError
from cotenant.opening import drafted, system_words
from cotenant.store import parquet, views
from cotenant.store.folder import require_no_record
from cotenant.store.reading import open_runs
from cotenant.tenancy.records import TABLES
from cotenant.text import did_you_mean

if TYPE_CHECKING:
    import duckdb

Format = Literal["csv", "json", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)
RESULTS = "results"
"""A row for each tenant of each mix: slowdown, latency, and what was decided."""

_OPTIONS = {
    "csv": "FORMAT csv, HEADER true",
    "json": "FORMAT json, ARRAY true",
    "parquet": "FORMAT parquet, COMPRESSION zstd",
}


def export(
    runs: Sequence[Path],
    table: str,
    destination: Path | Literal["-"],
    format: Format | None = None,  # noqa: A002  (the word of the command line)
    results: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """Write a table of the runs to a file, or to standard output if the destination is "-".

    ``results`` are the rows of the table `results`, which isn't among the records: it is worked out from them. The
    default format follows the file's suffix; standard output gets CSV. A file appears only once complete.

    Raises:
        QueryError: There is no such table or format.
        RunFolderError: A run can't be read, or the file can't be written.
    """
    import duckdb

    if table not in TABLES and results is None:
        names = (*TABLES, RESULTS)
        hint = did_you_mean(table, names) or f"tables: {', '.join(names)}"
        raise QueryError(f"There is no table {table!r}.", hint=hint)
    chosen = _format(destination, format)
    target = None if destination == "-" else Path(destination)
    if target is not None:
        require_no_record(target)
    try:
        with tempfile.TemporaryDirectory(prefix=".cotenant-", dir=target and target.resolve().parent) as scratch:
            whole = Path(scratch, "export")
            with open_runs(runs) as opened:
                columns = {column.name: column.type for column in views.view_columns(table)} if results is None else {}
                if results is not None:
                    columns = _loaded(opened.con, results, Path(scratch, "rows"))
                source = _harmless(table, columns) if chosen == "csv" else f"FROM {parquet.quoted(table)}"
                opened.con.execute(f"COPY ({source}) TO {parquet.text(str(whole))} ({_OPTIONS[chosen]})")
            if chosen in FORMS:
                rewrite(whole, FORMS[chosen])
            if target is None:
                with whole.open("rb") as file:
                    shutil.copyfileobj(file, sys.stdout.buffer)
            else:
                whole.replace(target)
    except BrokenPipeError:
        raise  # the reader closed the pipe; the caller decides what that means
    except (OSError, duckdb.IOException) as error:
        raise RunFolderError(
            f"{destination} can't be written: {system_words(error)}.",
            hint="Choose another path; the runs are unchanged.",
        ) from None


def _loaded(con: "duckdb.DuckDBPyConnection", rows: Sequence[Mapping[str, Any]], file: Path) -> dict[str, str]:
    """Make the table `results`; returns its columns and their types, numbers where a column has no value."""
    kinds = {str: "VARCHAR", bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE"}
    columns = {
        name: kinds[type(next((row[name] for row in rows if row[name] is not None), 0.0))] for name in (rows or [{}])[0]
    }
    file.write_text(json.dumps([dict(row) for row in rows]), encoding="utf-8")
    types = ", ".join(f"{parquet.text(name)}: {parquet.text(kind)}" for name, kind in columns.items())
    made = f"read_json({parquet.text(str(file))}, format = 'array', columns = {{{types}}})"
    con.execute(f"CREATE TEMP TABLE {RESULTS} AS FROM {made}")
    return columns


def _harmless(table: str, types: Mapping[str, str]) -> str:
    """The table with an apostrophe before text that a spreadsheet would execute as a formula."""
    columns = ", ".join(
        f"CASE WHEN regexp_matches({name}, '^[=+@\\t\\r-]') THEN chr(39) || {name} ELSE {name} END AS {name}"
        if kind == "VARCHAR"
        else name
        for column, kind in types.items()
        for name in [parquet.quoted(column)]
    )
    return f"SELECT {columns} FROM {parquet.quoted(table)}"  # noqa: S608  (quoted)


def _format(destination: Path | Literal["-"], asked: str | None) -> Format:
    name = asked or ("csv" if destination == "-" else Path(destination).suffix.removeprefix(".").lower())
    for known in FORMATS:
        if name == known:
            return known
    raise QueryError(f"{name!r} is not an export format.", hint=f"Use one of {', '.join(FORMATS)}.")


# --- escape characters of a text file that a terminal would interpret

_ACTING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Controls that move the cursor or change colours, and marks that reorder or hide text; not line ends."""
_AT_ONCE = 1 << 20

Form = Callable[[re.Match[str]], str]


def _in_csv(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _in_json(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"  # the same character to a parser


FORMS: dict[str, Form] = {"csv": _in_csv, "json": _in_json}


def rewrite(file: Path, form: Form) -> None:
    """Escape such characters of a file; a file without any is left unchanged. Raises OSError."""
    with file.open(encoding="utf-8", errors="replace", newline="") as source:
        if not any(_ACTING.search(line) for lines in iter(lambda: source.readlines(_AT_ONCE), []) for line in lines):
            return
        source.seek(0)
        with drafted(file) as draft, draft.open("w", encoding="utf-8", newline="") as target:
            for lines in iter(lambda: source.readlines(_AT_ONCE), []):
                target.writelines(_ACTING.sub(form, line) for line in lines)
