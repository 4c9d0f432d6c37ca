"""The index of the database: a small file, replaced atomically under a lock."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cotenant import opening
from cotenant.analyse.tabular import plain
from cotenant.errors import DatabaseError
from cotenant.store.database.staging import VERSION
from cotenant.store.manifest import CHECKSUM, checksum

NAME = "index.json"
LOCK = "lock"
LARGEST = 256 << 20
"""Maximum bytes of an index; a source takes some hundred."""
_ANEW = "restore it from a copy, or add everything again to another folder"
HINT = "set the database's folder with --db, or create one: cotenant db add RUN --db DIR"


@dataclass(frozen=True, slots=True)
class Source:
    """One run or file in the database."""

    key: str
    """Derived from its content: the same source never counts twice."""
    version: str
    """Changes when it grows, e.g. after a resumed run; a newer version replaces the older."""
    name: str
    kind: str
    """`run`, or the format of a file."""
    added_utc: str
    measurements: int
    readings: int
    gpus: int
    left_out: tuple[str, ...] = ()
    """What could not be used, as sentences."""
    sha256: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of its files, by table; empty if added before there were checksums."""

    @property
    def file(self) -> str:
        """The name of its Parquet files."""
        return f"{self.key}-{self.version}.parquet"


Index = Mapping[str, Source]
"""By key, in order of addition."""


def read(home: Path) -> dict[str, Source]:
    """All sources; empty if the folder is new or empty.

    Raises:
        DatabaseError: The folder isn't a database, is damaged, or was written by a newer version.
    """
    path = home / NAME
    try:
        text = opening.read_text(path, most=LARGEST, follow=False)
    except FileNotFoundError:
        if home.is_dir() and any(not entry.name.startswith((LOCK, "partial", ".")) for entry in home.iterdir()):
            raise DatabaseError(f"{home} is not a database: it has no {NAME}.", hint=HINT) from None
        return {}
    except (OSError, UnicodeDecodeError) as error:
        reason = opening.why(error) if isinstance(error, OSError) else "it is not text"
        raise DatabaseError(f"{path} can't be read: {reason}.", hint="check who owns the folder") from None
    try:
        found = json.loads(text)
        version = int(found["version"])
        if version > VERSION:
            raise DatabaseError(
                f"{home} was written by a newer cotenant (version {version}, this one reads up to {VERSION}).",
                hint="upgrade: pip install --upgrade cotenant",
            )
        if found.get(CHECKSUM, checksum({"sources": found["sources"]})) != checksum({"sources": found["sources"]}):
            raise DatabaseError(f"{path} is damaged: its content has changed since it was written.", hint=_ANEW)
        sources = [_source(entry) for entry in found["sources"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DatabaseError(f"{path} is damaged: {error}.", hint=_ANEW) from None
    return {source.key: source for source in sources}


def _source(entry: Mapping[str, Any]) -> Source:
    source = Source(**{**entry, "left_out": tuple(entry["left_out"])})
    if not all(isinstance(text, str) for text in (source.key, source.version, source.name)) or "/" in source.file:
        raise ValueError("a source has no name")
    if not all(isinstance(count, int) for count in (source.measurements, source.readings, source.gpus)):
        raise ValueError(f"the rows of {source.name} are not counted")
    return source


def write(home: Path, index: Index) -> None:
    """Replace the index atomically. Requires the lock."""
    sources = plain(list(index.values()))
    content = {"version": VERSION, "sources": sources, CHECKSUM: checksum({"sources": sources})}
    opening.replace_file(home / NAME, json.dumps(content, indent=1, ensure_ascii=False), draft=f".{NAME}.new")


@contextlib.contextmanager
def locked(home: Path, *, shared: bool = False) -> Iterator[None]:
    """Lock the database: exclusively to change it, shared to read it. Waits if necessary."""
    flags = os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT
    try:
        handle = os.open(home / LOCK, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except FileNotFoundError:
        yield  # nothing was ever added, so nothing needs protection
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
