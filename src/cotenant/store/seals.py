"""A seal in every committed folder: its trials, their rows, and the SHA-256 of its files.

The seal is written before the rename that commits the folder, so every trial has a seal. Readers verify it:
a flipped bit, a missing file or a swapped folder is detected before any number is computed. Content is hashed once per
process, cached by the file's identity.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cotenant import opening

NAME = "seal.json"
_SEAL_BYTES = 1 << 20
_BLOCK = 1 << 18

Rows = Mapping[int, Mapping[str, int]]
"""Trial -> table -> rows."""


@dataclass(frozen=True, slots=True)
class Seal:
    """The contents of a folder's seal."""

    run: str
    folder: str
    rows: Rows
    files: Mapping[str, tuple[int, str]]
    """Name -> bytes, SHA-256."""


class Broken(ValueError):
    """A folder doesn't match its seal; the message says what differs, without the folder's name."""

    def __init__(self, file: str, how: str) -> None:
        super().__init__(f"{file}: {how}")
        self.file = file
        self.how = how


def write(folder: Path, *, run: str, name: str, rows: Rows) -> Path:
    """Seal a folder about to be committed under a name; returns the seal's file."""
    content = {
        "run": run,
        "folder": name,
        "rows": {str(trial): dict(tables) for trial, tables in rows.items()},
        "files": {
            file.name: {"bytes": file.stat().st_size, "sha256": digest_of(file)}
            for file in sorted(folder.iterdir())
            if file.name != NAME
        },
    }
    seal = folder / NAME
    seal.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return seal


def check(folder: Path, run: str, *, required: bool) -> Seal | None:
    """Compare a committed folder with its seal; None if it has none and needs none.

    Raises:
        Broken: They differ.
        OSError: The folder can't be read.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        present = set(os.listdir(handle))  # noqa: PTH208  (by its handle: the name may be another's by now)
        if NAME not in present:
            if required:
                raise Broken(NAME, "it is missing")
            return None
        seal = _read(handle)
        if (seal.run, seal.folder) != (run, folder.name):
            raise Broken(NAME, f"it belongs to {seal.folder} of run {seal.run}")
        for name, (size, digest) in seal.files.items():
            if name not in present:
                raise Broken(name, "it is missing")
            _compare(name, handle, size, digest)
        if extra := sorted(present - set(seal.files) - {NAME}):
            raise Broken(extra[0], "it was added after the trial was committed")
        return seal
    finally:
        os.close(handle)


def _compare(name: str, handle: int, size: int, digest: str) -> None:
    try:
        found_size, same = _same(*opening.examined(name, most=opening.TABLE_BYTES, follow=False, folder=handle), digest)
    except OSError as error:
        raise Broken(name, opening.why(error)) from None
    if found_size != size:
        raise Broken(name, f"it has {found_size} bytes instead of {size}")
    if not same:
        raise Broken(name, "its content has changed since it was written")


def matches(file: Path, digest: str) -> bool:
    """Whether a file's content has this SHA-256. Raises OSError."""
    return _same(*opening.examined(file, most=opening.TABLE_BYTES, follow=False), digest)[1]


def digest_of(file: Path) -> str:
    """The SHA-256 of a file's content. Raises OSError."""
    opened, found = opening.examined(file, most=opening.TABLE_BYTES, follow=False)
    try:
        return _digest(opened, found.st_size)
    finally:
        os.close(opened)


_known: dict[tuple[int, ...], str] = {}
"""Hashes of files found intact; damaged ones are not cached."""


def _same(file: int, found: os.stat_result, digest: str) -> tuple[int, bool]:
    """The size of an open file, which this closes, and whether its content has this hash."""
    try:
        identity = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        same = _known.get(identity) == digest or _digest(file, found.st_size) == digest
        if same:
            _known[identity] = digest
        return found.st_size, same
    finally:
        os.close(file)


def _digest(file: int, size: int) -> str:
    """Plain reads, small files in a single read: a file object or a large buffer costs more than hashing most files."""
    block = os.read(file, min(size, _BLOCK) + 1)
    whole = hashlib.sha256(block)
    while block and (size := size - len(block)) != 0:
        block = os.read(file, _BLOCK)
        whole.update(block)
    return whole.hexdigest()


def _read(handle: int) -> Seal:
    try:
        content = json.loads(opening.read_bytes(NAME, most=_SEAL_BYTES, follow=False, folder=handle).decode())
        return Seal(
            run=str(content["run"]),
            folder=str(content["folder"]),
            rows={int(trial): {str(k): int(n) for k, n in rows.items()} for trial, rows in content["rows"].items()},
            files={
                _plain(name): (int(entry["bytes"]), str(entry["sha256"])) for name, entry in content["files"].items()
            },
        )
    except OSError as error:
        raise Broken(NAME, opening.why(error)) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Broken(NAME, "it is damaged") from None


def _plain(name: str) -> str:
    if "/" in name or name in {"", ".", "..", NAME}:
        raise ValueError(name)
    return name
