"""`export`: a table of the records as a file."""

from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.paths import AnyPath, Runs, run_paths

if TYPE_CHECKING:
    from cotenant.store.export import Format


def export(
    runs: Runs,
    table: str,
    destination: AnyPath,
    format: "Format | None" = None,  # noqa: A002 - the word of the command line
) -> None:
    """Write one table of the runs as CSV, JSON or Parquet; `-` is the standard output.

    Raises:
        QueryError: There is no such table or format.
        RunFolderError: A run can't be read, or the file can't be written.
    """
    from cotenant.store import export as store

    store.export(run_paths(runs), table, "-" if destination == "-" else Path(destination), format)
