"""`sql`: read-only queries over the records."""

from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.paths import AnyPath, Runs, run_paths

if TYPE_CHECKING:
    from cotenant.store.export import Format
    from cotenant.store.query import Table
    from cotenant.store.verifying import Verified


def sql(query: str, runs: Runs, *, limit_s: float = 60.0) -> "Table":
    """Run a SELECT over the tables of any number of runs.

    Args:
        query: The SELECT.
        runs: Run folders.
        limit_s: Timeout in seconds.

    Raises:
        QueryError: The query is wrong, does more than read, or needs too much memory or time.
    """
    from cotenant.store import query as store

    return store.sql(query, run_paths(runs), limit_s=limit_s)


# --- `export`: a table of the records as a file


def export(
    runs: Runs,
    table: str,
    destination: AnyPath,
    format: "Format | None" = None,  # noqa: A002 - the word of the command line
) -> None:
    """Write a table of the runs as CSV, JSON or Parquet; `-` is the standard output.

    Besides the records there is `results`: a row for each tenant of each mix, with its slowdown and what was decided.

    Raises:
        QueryError: There is no such table or format.
        RunFolderError: A run can't be read, or the file can't be written.
    """
    from cotenant.errors import RunFolderError
    from cotenant.store import export as store

    results = None
    if table == store.RESULTS:
        from cotenant.api.show import show

        results = show(runs).rows()
        if not results:
            raise RunFolderError("There is no result yet: no trial has ended.", hint="cotenant run --resume RUN")
    store.export(run_paths(runs), table, "-" if destination == "-" else Path(destination), format, results)


# --- `verify`: are all runs unchanged since they were written?


def run_digests(runs: Runs) -> "dict[Path, str]":
    """The SHA-256 of every run, over the names and contents of all its files: to keep elsewhere and compare later.

    Raises:
        RunFolderError: A folder is not a run, or a file can't be read.
    """
    from cotenant.store import manifest
    from cotenant.store.verifying import digest_of_run

    digests = {}
    for path in dict.fromkeys(run_paths(runs)):
        manifest.read(path)
        digests[path] = digest_of_run(path)
    return digests


def verify(runs: Runs) -> "tuple[Verified, ...]":
    """Compare every file of the runs with its seal, and count every trial's rows. Read-only."""
    from cotenant.store.verifying import verify_run

    return tuple(map(verify_run, dict.fromkeys(run_paths(runs))))
