"""Any number of runs as a single database: a view per table, with the run's identity in every row."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant import opening
from cotenant.errors import RunFolderError
from cotenant.store import damage, integrity, parquet
from cotenant.store.folder import RunFolder
from cotenant.tenancy.records import TABLES, Column

if TYPE_CHECKING:
    import duckdb

MEMORY_LIMIT = "768MiB"
"""Memory limit of a query; nothing spills to disk."""

Files = Mapping[str, Mapping[str, Sequence[Path]]]
"""Run -> table -> the Parquet files of its trials."""


def view_columns(table: str) -> tuple[Column, ...]:
    """The columns of a view: the run, then the table's."""
    run = TABLES["trials"][0]
    return (run, *(column for column in TABLES[table] if column.name != run.name))


def find_folders(runs: Sequence[Path]) -> dict[str, RunFolder]:
    """The runs by identity, each once however often its folder is given."""
    folders: dict[str, RunFolder] = {}
    for path in dict.fromkeys(run.resolve() for run in runs):
        folder = RunFolder.open(path)
        if folder.run in folders:
            raise RunFolderError(
                f"{folders[folder.run].path} and {path} are the same run ({folder.run}).",
                hint="Use one of them: counted twice, every interval would be too narrow.",
            )
        folders[folder.run] = folder
    return folders


def files_of(folder: RunFolder, standing: integrity.RunState) -> Mapping[str, Sequence[Path]]:
    """The files of all intact trials of a run, by table."""
    by_table: dict[str, list[Path]] = {table: [] for table in TABLES}
    for trial, numbers in folder.chunks().items():
        if numbers[0] not in standing.whole:
            continue
        seal = standing.whole[numbers[0]]
        present = set(seal.files) if seal else _unsealed(trial)
        for table, files in by_table.items():
            # Every trial has a row in `trials`: if that file is missing, the folder is damaged, not empty.
            if table == "trials" or f"{table}.parquet" in present:
                files.append(trial / f"{table}.parquet")
                if seal is None:
                    damage.check_end(files[-1])
    return by_table


def _unsealed(trial: Path) -> set[str]:
    try:
        return {entry.name for entry in trial.iterdir()}
    except OSError as error:
        raise damage.damaged(trial / "trials.parquet", opening.why(error)) from None


def open_views(files: Files) -> "duckdb.DuckDBPyConnection":
    """An in-memory database with the views, not locked yet."""
    con = parquet.memory(memory_limit=MEMORY_LIMIT)
    with damage_named(files):
        for table in TABLES:
            parts = [part(run, table, of_run[table]) for run, of_run in files.items() if of_run[table]]
            con.execute(f"CREATE VIEW {parquet.quoted(table)} AS {' UNION ALL '.join(parts) or _empty(table)}")
    return con


def part(run: str, table: str, files: Sequence[Path], *, numbered: bool = False) -> str:
    """A query for a run's rows of a table; `numbered` adds `file_row_number`, their order in a file."""
    names = [column.name for column in view_columns(table) if column.name != "run"]
    columns = ", ".join(parquet.quoted(name) for name in (*names, *(["file_row_number"] if numbered else ())))
    listed = ", ".join(parquet.text(damage.literal(file)) for file in files)
    source = f"SELECT * FROM read_parquet([{listed}], file_row_number = {str(numbered).lower()})"  # noqa: S608  (quoted)
    later = [column for column in TABLES[table] if column.later]
    if later:  # older runs lack these; any other missing column means a foreign file
        source = f"{source} UNION ALL BY NAME {_nothing(later)}"
    return f"SELECT {parquet.text(run)} AS run, {columns} FROM ({source})"  # noqa: S608  (quoted)


def _empty(table: str) -> str:
    return _nothing(view_columns(table))


def _nothing(columns: Sequence[Column]) -> str:
    """An empty result with these columns."""
    nulls = ", ".join(f"CAST(NULL AS {column.type}) AS {parquet.quoted(column.name)}" for column in columns)
    return f"SELECT {nulls} WHERE false"


def lock(con: "duckdb.DuckDBPyConnection", files: Files) -> None:
    """Restrict the connection permanently to the given files."""
    paths = [file for of_run in files.values() for of_table in of_run.values() for file in of_table]
    con.execute("SET allowed_paths = ?", [[*map(str, paths), *map(damage.literal, paths)]])
    con.execute("SET enable_external_access = false")
    con.execute("SET lock_configuration = true")


@contextmanager
def damage_named(files: Files) -> Iterator[None]:
    """Turn a database error caused by a damaged file into a RunFolderError that names the file."""
    import duckdb

    about_the_query = (
        duckdb.BinderException,
        duckdb.CatalogException,
        duckdb.ConversionException,
        duckdb.InterruptException,
        duckdb.OutOfMemoryException,
        duckdb.ParserException,
        duckdb.PermissionException,
    )
    try:
        yield
    except about_the_query:
        raise
    except duckdb.Error:
        named = damage.find(file for of_run in files.values() for of_table in of_run.values() for file in of_table)
        if named is None:
            raise
        raise named from None
