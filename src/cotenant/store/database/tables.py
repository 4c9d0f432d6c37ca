"""Tables of what others measured, kept beside the database as they are."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.errors import DataError
from cotenant.prediction.interference.elsewhere import ForeignTable, recognised
from cotenant.store.database import index
from cotenant.store.database.add import Added
from cotenant.store.database.index import Source
from cotenant.store.learnt import TABLES, table_at

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_HEADER = 1 << 16


def split_tables(paths: "Iterable[Path]") -> tuple[list[Path], list[tuple[Path, ForeignTable]]]:
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
        added.append(Added(_source(kept, path.name, key, table), "added" if known is None else "known"))
    return tuple(added)


def kept_tables(home: Path) -> tuple[Source, ...]:
    """The tables beside a database."""
    sources = []
    for kept in sorted((home / TABLES).glob("*.csv")):
        stem, _, key = kept.stem.rpartition(".")
        sources.append(_source(kept, f"{stem or key}.csv", key, table_at(kept)))
    return tuple(sources)


def _source(kept: Path, name: str, key: str, table: ForeignTable) -> Source:
    added = datetime.fromtimestamp(kept.stat().st_mtime, UTC).isoformat(timespec="seconds")
    rows = sum(len(mix.slowdowns) for mix in table.found.mixes) + len(table.found.solos)
    return Source(key, "1", name, "table", added, measurements=rows, readings=0, gpus=1)


def _is_table(path: Path) -> bool:
    with path.open(encoding="utf-8", errors="replace") as file:
        return recognised(file.readline(LONGEST_HEADER).lstrip("\ufeff"))  # a file without an end has no line either
