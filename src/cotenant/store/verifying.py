"""Verify a run on disk: its manifest, its seals, and the rows of its tables."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cotenant import opening
from cotenant.errors import RunFolderError
from cotenant.store import damage, integrity, parquet, seals
from cotenant.store.folder import RunFolder
from cotenant.store.integrity import gap_sentence


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of verifying a run."""

    run: Path
    trials: int
    """Trials on disk, damaged or not."""
    unsealed: int
    """Trials without a seal: readable, but damage to them can't be detected."""
    damaged: tuple[str, ...]
    """One sentence per trial that doesn't match its seal, or for an unreadable manifest."""
    missing: int
    """Trials that a completed run had and that are gone."""
    incomplete: str | None = None
    """A sentence about requests that could not be written, though what was written is unchanged."""

    @property
    def state(self) -> Literal["whole", "incomplete", "unsealed", "damaged"]:
        """The result in a word."""
        if self.damaged or self.missing:
            return "damaged"
        if self.incomplete:
            return "incomplete"
        return "unsealed" if self.unsealed else "whole"


def verify_run(path: Path) -> Verified:
    """Hash every file of a run, and count the rows of every trial. An unreadable run is damaged."""
    try:
        folder = RunFolder.open(path)
        found = integrity.standing(folder)
    except RunFolderError as error:
        return Verified(path, 0, 0, (error.message,), 0)
    damage = [f"trial {trial}: {how}" for trial, how in found.damaged.items()]
    for chunk, trials in folder.chunks().items():
        if trials[0] not in found.whole:
            continue
        what = f"trial {trials[0]}" if len(trials) == 1 else f"trials {chunk.name}"
        try:
            _recount(chunk, trials, found.whole[trials[0]])
        except RunFolderError as error:
            damage.append(f"{what}: {error.message}")
        except seals.Broken as how:
            damage.append(f"{what}: {how}")
    gaps = gap_sentence(found.gaps, found.requests) if found.gaps else None
    return Verified(path, len(found.whole) + len(found.damaged), found.unsealed, tuple(damage), found.missing, gaps)


def digest_of_run(path: Path) -> str:
    """The SHA-256 over the names and contents of all files of a run.

    Raises:
        RunFolderError: A file can't be read.
    """
    whole = hashlib.sha256()
    try:
        for file in sorted(entry for entry in path.rglob("*") if entry.is_symlink() or not entry.is_dir()):
            whole.update(f"{file.relative_to(path).as_posix()}\0{seals.digest_of(file)}\n".encode())
    except OSError as error:
        raise RunFolderError(f"{file} can't be read: {opening.why(error)}.", hint="Check its permissions.") from None
    return whole.hexdigest()


def _recount(folder: Path, trials: Sequence[int], seal: seals.Seal | None) -> None:
    """Raise if the rows of the trials' tables differ from the seal's counts or belong to other trials."""
    import duckdb

    rows = {} if seal is None else seal.rows
    con = parquet.memory()
    try:
        for file in sorted(folder.glob("*.parquet")):
            damage.check_end(file)
            count = f"SELECT trial, count(*) FROM read_parquet({parquet.text(damage.literal(file))}) GROUP BY trial"  # noqa: S608  (quoted)
            try:
                held = dict(con.execute(count).fetchall())
            except duckdb.Error as error:
                raise seals.Broken(file.name, str(error).splitlines()[0]) from None
            stated = {number: tables[file.stem] for number, tables in rows.items() if file.stem in tables}
            if (seal is not None and held != stated) or (seal is None and not set(held) <= set(trials)):
                raise seals.Broken(file.name, "its rows are not those of the trial")
    finally:
        con.close()
