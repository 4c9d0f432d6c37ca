"""Add to the database: all sources of a call or none, each source once, safe under concurrency."""

import contextlib
import errno
import hashlib
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cotenant.analyse.tabular import plain
from cotenant.errors import DatabaseError, DataError
from cotenant.opening import sync, system_words
from cotenant.prediction.interference import ForeignTable, recognised
from cotenant.store import manifest, seals
from cotenant.store.database import from_files, from_runs, index
from cotenant.store.database.index import Source
from cotenant.store.database.staging import StagedSource, Staging
from cotenant.store.learnt import TABLES, table_at

PARTIAL = "partial"


@dataclass(frozen=True, slots=True)
class Added:
    """Result of adding a source."""

    source: Source
    how: str
    """`added`, `updated` (it has grown) or `known` (nothing new)."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**plain(self.source), "how": self.how}


def add(paths: Sequence[Path], home: Path, *, skip_bad: bool = False) -> tuple[Added, ...]:
    """Add run folders and files of other tools.

    Args:
        paths: Run folders, or files in an importable format.
        home: The database's folder; created if missing.
        skip_bad: Skip unusable lines instead of refusing the file.

    Raises:
        RunFolderError, DataError: A source can't be used; nothing is added.
        DatabaseError: The folder isn't a database, or can't be written.
    """
    known = index.read(home)
    room = home / PARTIAL / uuid.uuid4().hex
    try:
        with _explained(home):
            home.mkdir(parents=True, exist_ok=True)
            staged: list[tuple[Source, StagedSource | None]] = []
            for number, path in enumerate(dict.fromkeys(paths)):
                staged.append(_staged(path, known, room / str(number), skip_bad=skip_bad))
            with index.locked(home):
                return _commit(home, staged)
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(room, ignore_errors=True)
            (home / PARTIAL).rmdir()


def _staged(path: Path, known: index.Index, room: Path, *, skip_bad: bool) -> tuple[Source, StagedSource | None]:
    """Its rows, staged; None if all of it is already present."""
    is_run = path.is_dir() or (path / manifest.NAME).exists()
    if is_run:
        name, version = from_runs.identity(path)
        key = hashlib.blake2b(name.encode(), digest_size=12).hexdigest()
    else:
        name, version = path.name, "strict" if not skip_bad else "tolerant"
        key = from_files.key_of(path)
    if key in known and known[key].version == version:
        return known[key], None
    staging = Staging(room, key)
    try:
        staged = from_runs.stage(path, staging) if is_run else from_files.stage(path, staging, skip_bad=skip_bad)
    finally:
        staging.close()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    counts = {"measurements": staged.measurements, "readings": staged.readings, "gpus": staged.gpus}
    sealed = {table: seals.digest_of(file) for table, file in staged.files.items()}
    return Source(key, version, name, staged.kind, now, **counts, left_out=staged.left_out, sha256=sealed), staged


def _commit(home: Path, staged: Sequence[tuple[Source, StagedSource | None]]) -> tuple[Added, ...]:
    """Move the files in, then replace the index, which makes them visible. Requires the lock."""
    current = index.read(home)
    results: list[Added] = []
    replaced: list[Source] = []
    if not (home / index.NAME).exists():
        index.write(home, current)  # first: files without an index would look like a database that lost its index
    for source, rows in staged:
        there = current.get(source.key)
        if rows is None or (there is not None and there.version == source.version):
            results.append(Added(there or source, "known"))
            continue
        for table, file in rows.files.items():
            (home / table).mkdir(exist_ok=True)
            file.replace(home / table / source.file)
            sync(home / table)
        if there is not None:
            replaced.append(there)
        current[source.key] = source
        results.append(Added(source, "updated" if there is not None else "added"))
    if any(result.how != "known" for result in results):
        index.write(home, current)
    for old in replaced:
        for table in ("measurements", "readings"):
            (home / table / old.file).unlink(missing_ok=True)
    return tuple(results)


@contextlib.contextmanager
def _explained(home: Path) -> Iterator[None]:
    """Turn a failed write into a sentence; the database is unchanged."""
    import duckdb

    full = {os.strerror(code).lower() for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)}
    try:
        yield
    except (OSError, duckdb.IOException) as error:
        reason = system_words(error)
        step = "free some space" if reason in full else "choose a writable folder"
        raise DatabaseError(
            f"{home} can't be written: {reason}; it is unchanged.", hint=f"{step}, then add again"
        ) from None


# --- tables of what others measured, kept beside the database as they are

LONGEST_HEADER = 1 << 16


def split_tables(paths: Iterable[Path]) -> tuple[list[Path], list[tuple[Path, ForeignTable]]]:
    """Paths of other kinds, and tables, which are checked before anything is added.

    Raises:
        DataError: Lines of a table can't be used, or it doesn't name its device.
    """
    others: list[Path] = []
    tables: list[tuple[Path, ForeignTable]] = []
    for path in paths:
        if not (path.is_file() and path.suffix.lower() == ".csv" and _is_table(path)):
            others.append(path)
            continue
        table = table_at(path)
        if table.device is None:
            raise DataError(
                f"{path} doesn't say which device it was measured on.",
                hint="add a column `device`, such as sim:v100-sxm2-16gb or the name that `cotenant devices` shows",
            )
        tables.append((path, table))
    return others, tables


def add_tables(tables: Sequence[tuple[Path, ForeignTable]], home: Path) -> tuple[Added, ...]:
    """Keep checked tables; a table with the same content is known."""
    added: list[Added] = []
    if tables and not (home / index.NAME).exists():
        home.mkdir(parents=True, exist_ok=True)
        index.write(home, {})
    for path, table in tables:
        content = path.read_bytes()
        key = hashlib.blake2b(content, digest_size=12).hexdigest()
        known = next((home / TABLES).glob(f"*{key}.csv"), None)
        kept = known or home / TABLES / f"{path.stem}.{key}.csv"
        if known is None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(content)
        added.append(Added(_table_source(kept, path.name, key, table), "added" if known is None else "known"))
    return tuple(added)


def kept_tables(home: Path) -> tuple[Source, ...]:
    """The tables beside a database."""
    sources = []
    for kept in sorted((home / TABLES).glob("*.csv")):
        stem, _, key = kept.stem.rpartition(".")
        sources.append(_table_source(kept, f"{stem or key}.csv", key, table_at(kept)))
    return tuple(sources)


def _table_source(kept: Path, name: str, key: str, table: ForeignTable) -> Source:
    added = datetime.fromtimestamp(kept.stat().st_mtime, UTC).isoformat(timespec="seconds")
    rows = sum(len(mix.slowdowns) for mix in table.found.mixes) + len(table.found.solos)
    return Source(key, "1", name, "table", added, measurements=rows, readings=0, gpus=1)


def _is_table(path: Path) -> bool:
    with path.open(encoding="utf-8", errors="replace") as file:
        return recognised(file.readline(LONGEST_HEADER).lstrip("\ufeff"))  # a file without an end has no line either
