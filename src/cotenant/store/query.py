"""Query the records in SQL: a single SELECT, over the runs' files and nothing else."""

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.errors import QueryError
from cotenant.store import views
from cotenant.store.reading import open_runs
from cotenant.tenancy.records import TABLES
from cotenant.text import nearest

if TYPE_CHECKING:
    import duckdb

LIMIT_S = 60.0
"""Default time limit of a query."""
MOST_ROWS = 1_000_000
"""Maximum rows of a result; exporting a table has no such limit."""


@dataclass(frozen=True, slots=True)
class Table:
    """A result: column names, and rows in order."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def sql(query: str, runs: Sequence[Path], *, limit_s: float = LIMIT_S) -> Table:
    """Run a SELECT over the tables of the runs.

    Nothing can be written and no other file read. A query may use `views.MEMORY_LIMIT` of memory, return `MOST_ROWS`
    rows and take `limit_s` seconds.

    Raises:
        QueryError: The query is invalid, would write, or needs too much memory or time.
        RunFolderError: A run can't be read.
    """
    import duckdb

    try:
        with open_runs(runs) as opened:
            opened.con.execute("SET errors_as_json = true")
            views.lock(opened.con, opened.files)
            clock = threading.Timer(limit_s, opened.con.interrupt)
            clock.start()
            try:
                answer = opened.con.execute(_only_select(opened.con, query))
                columns = tuple(column[0] for column in answer.description)
                rows = answer.fetchmany(MOST_ROWS + 1)
            finally:
                clock.cancel()
    except duckdb.InterruptException:
        raise QueryError(
            f"The query took longer than {limit_s:g} s.", hint="Select fewer rows, or raise --timeout."
        ) from None
    except duckdb.Error as error:
        raise _explained(query, error) from None
    if len(rows) > MOST_ROWS:
        raise QueryError(
            f"The query returns more than {MOST_ROWS:,} rows.", hint="Aggregate, add a LIMIT, or export the table."
        )
    return Table(columns, tuple(rows))


def _only_select(con: "duckdb.DuckDBPyConnection", query: str) -> Any:
    import duckdb

    statements = con.extract_statements(query)
    if len(statements) != 1:
        count = "no" if not statements else str(len(statements))
        raise QueryError(f"Expected one SELECT, found {count} statements.", hint=_what_there_is())
    kind = statements[0].type
    if kind != duckdb.StatementType.SELECT:
        raise QueryError(
            f"Runs are read-only: {kind.name} is not allowed, only SELECT.", hint="To get a table as a file, export it."
        )
    return statements[0]


def _explained(query: str, error: Exception) -> QueryError:
    import duckdb

    details = _details(error)
    said = str(details.get("exception_message", "")).splitlines()[0].rstrip(".!")
    if isinstance(error, duckdb.OutOfMemoryException):
        return QueryError(
            f"The query needs more than {views.MEMORY_LIMIT} of memory.", hint="Select fewer columns or rows, or group."
        )
    if isinstance(error, duckdb.PermissionException):
        said, hint = "Only the runs' own tables can be read", _what_there_is()
    else:
        hint = _suggestion(details)
    return QueryError(f"{said}{_where(query, details)}.", hint=hint)


def _details(error: Exception) -> dict[str, Any]:
    message = str(error)
    try:
        details = json.loads(message[message.index("{") :])
    except ValueError:
        return {"exception_message": message}
    return details if isinstance(details, dict) else {"exception_message": message}


def _where(query: str, details: dict[str, Any]) -> str:
    position = str(details.get("position", ""))
    if not position.isdecimal():
        return ""
    before = query.encode()[: int(position)].decode(errors="ignore")
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return f" (line {line}, column {column})"


def _suggestion(details: dict[str, Any]) -> str:
    """DuckDB suggests from the tables in the query; a column may well belong to another table."""
    homes: dict[str, list[str]] = {}
    for table in TABLES:
        for column in views.view_columns(table):
            homes.setdefault(column.name, []).append(table)
    match details.get("name"), details.get("type"):
        case str(missing), "Table":
            known = list(TABLES)
        case str(missing), None:
            known = list(homes)
        case str(missing), _:
            known = str(details.get("candidates", "")).split(",")
        case _:
            return _what_there_is()
    close = nearest(missing, known)
    if not close:
        return _what_there_is()
    place = f" (in {', '.join(homes[close[0]])})" if "type" not in details else ""
    return f"Did you mean {close[0]}{place}? {_what_there_is()}"


def _what_there_is() -> str:
    return f"Tables: {', '.join(TABLES)}. For the columns of one: DESCRIBE requests"
