"""Find the damaged file of a run, to report it instead of a database error."""

from collections.abc import Iterable
from pathlib import Path

from cotenant import opening
from cotenant.errors import RunFolderError
from cotenant.store import parquet
from cotenant.store.folder import resume_command
from cotenant.tenancy.records import TABLES

_MAGIC = b"PAR1"
_SHORTEST = 12  # magic, length of the footer, magic


def check_end(file: Path) -> None:
    """Raise RunFolderError if a file is missing, unreadable or truncated. Reads only a few bytes."""
    try:
        with opening.open_file(file, most=opening.TABLE_BYTES, follow=False) as handle:
            size = handle.seek(0, 2)
            handle.seek(max(0, size - len(_MAGIC)))
            ending = handle.read()
    except FileNotFoundError:
        raise damaged(file, "it is missing") from None
    except OSError as error:
        raise damaged(file, opening.why(error)) from None
    if size < _SHORTEST or ending != _MAGIC:
        raise damaged(file, "it is truncated or not Parquet")


def find(files: Iterable[Path]) -> RunFolderError | None:
    """Read every value of every file; returns an error for the first unreadable file, if any."""
    import duckdb

    con = parquet.memory()
    for file in files:
        try:
            con.execute("SELECT bit_xor(hash(t)) FROM read_parquet(?) AS t", [[literal(file)]]).fetchall()
            described = con.execute("DESCRIBE FROM read_parquet(?)", [[literal(file)]]).fetchall()
        except duckdb.Error as error:
            return damaged(file, str(error).splitlines()[0])
        held, wanted = {name for name, *_ in described}, {column.name for column in TABLES[file.stem]}
        if not held <= wanted:
            return damaged(file, f"its columns are not those of {file.stem}")
    return None


def literal(file: Path) -> str:
    """A path for DuckDB with `*`, `?` and `[` escaped."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in str(file))


def damaged(file: Path, how: str) -> RunFolderError:
    """The error for a damaged file of a trial."""
    trial = file.parent
    return RunFolderError(
        f"{file} is damaged: {how}.",
        hint=f"Remove {trial} and measure that trial again: {resume_command(trial.parent.parent)}",
    )
