"""Process many trials in portions: querying all records of a long run at once would not fit into memory."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from cotenant.store import parquet, views
from cotenant.store.folder import trials_in

if TYPE_CHECKING:
    import duckdb


MOST_ROWS = 1_000_000
"""Maximum rows of a portion, unless a single member has more."""

TrialKey = tuple[str, int]
"""Run and number of the trial."""
T = TypeVar("T")


def portions(members: Sequence[T], sizes: Iterable[int], most: int = MOST_ROWS) -> Iterator[Sequence[T]]:
    """Split into chunks of at most ``most`` rows, or single members."""
    start = filled = 0
    for stop, size in enumerate(sizes):
        if stop > start and filled + size > most:
            yield members[start:stop]
            start, filled = stop, 0
        filled += size
    if start < len(members):
        yield members[start:]


def rows_by_trial(con: "duckdb.DuckDBPyConnection", table: str) -> dict[TrialKey, int]:
    """Rows of a table by trial."""
    counted = con.execute(f"SELECT run, trial, count(*) FROM {parquet.quoted(table)} GROUP BY ALL")  # noqa: S608  (quoted)
    return {(str(run), int(trial)): int(rows) for run, trial, rows in counted.fetchall()}


def of_trials(files: views.Files, table: str, trials: Iterable[TrialKey]) -> str:
    """A query like the table's view, over some trials only; opens no other files.

    Adds the column `file_row_number`, the order of a trial's rows.
    """
    wanted: dict[str, set[int]] = {}
    for run, number in trials:
        wanted.setdefault(run, set()).add(number)
    parts = [_of_run(run, table, of_run[table], wanted.get(run, set())) for run, of_run in files.items()]
    return " UNION ALL ".join(part for part in parts if part)


def _of_run(run: str, table: str, files: Sequence[Path], wanted: set[int]) -> str:
    held = [(file, trials_in(file.parent.name)) for file in files]
    chosen = [(file, numbers) for file, numbers in held if not wanted.isdisjoint(numbers)]
    if not chosen:
        return ""
    rows = views.part(run, table, [file for file, _ in chosen], numbered=True)
    if all(wanted.issuperset(numbers) for _, numbers in chosen):
        return rows
    return f"SELECT * FROM ({rows}) WHERE trial IN ({', '.join(map(str, sorted(wanted)))})"  # noqa: S608  (numbers)
