"""Many trials a portion at a time: a question to all records of a long run at once would not fit into memory."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from cotenant.store import parquet, views

if TYPE_CHECKING:
    import duckdb

MOST_ROWS = 1_000_000
"""Of a portion, unless one of its members alone has more."""

TrialKey = tuple[str, int]
"""Run and number of the trial."""
T = TypeVar("T")


def portions(members: Sequence[T], sizes: Iterable[int], most: int = MOST_ROWS) -> Iterator[Sequence[T]]:
    """Cut a sequence of members of these sizes into stretches that together are no larger than this, or are one."""
    start = filled = 0
    for stop, size in enumerate(sizes):
        if stop > start and filled + size > most:
            yield members[start:stop]
            start, filled = stop, 0
        filled += size
    if start < len(members):
        yield members[start:]


def rows_by_trial(con: "duckdb.DuckDBPyConnection", table: str) -> dict[TrialKey, int]:
    """How many rows of a table each trial has."""
    counted = con.execute(f"SELECT run, trial, count(*) FROM {parquet.quoted(table)} GROUP BY ALL")  # noqa: S608  (quoted)
    return {(str(run), int(trial)): int(rows) for run, trial, rows in counted.fetchall()}


def of_trials(files: views.Files, table: str, trials: Iterable[TrialKey]) -> str:
    """A query like the table's view over some trials only: no other trial's file is opened.

    It has one more column: `file_row_number`, the order in which a trial's rows were recorded.
    """
    wanted = set(trials)
    chosen = {
        run: [file for file in of_run[table] if (run, int(file.parent.name)) in wanted] for run, of_run in files.items()
    }
    return " UNION ALL ".join(views.part(run, table, of_run, numbered=True) for run, of_run in chosen.items() if of_run)
