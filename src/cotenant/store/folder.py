"""A run on disk: trials are committed singly or in chunks, by an atomic rename."""

import errno
import json
import os
import re
import secrets
import shlex
import shutil
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from cotenant.errors import RunFolderError
from cotenant.interruption import held
from cotenant.opening import replace_file, sync, system_words, why
from cotenant.paths import AnyPath
from cotenant.store import manifest as manifests
from cotenant.store import parquet, seals
from cotenant.tenancy.records import SCHEMA_VERSION, TrialRecords

if TYPE_CHECKING:
    import duckdb

    from cotenant.store.export import Format


# --- the path of a new run, safe for any study name

LONGEST_SLUG = 48


def slug(name: str) -> str:
    """A safe folder name: lower-case letters, digits and single hyphens, never empty."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:LONGEST_SLUG].strip("-") or "study"


def stamp() -> str:
    """The time to the second and a few random digits: sorts by time and is unique."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def new_run_path(root: Path, study: str) -> Path:
    """A path for a new run of a study: `root/<study>/<time>-<random>`. Creates nothing."""
    return root / slug(study) / stamp()


# --- the unit of commit: a folder named after its trials, `000007` or `000012-000014+000017`
LONGEST_NAME = 240
"""Bytes; most file systems allow 255."""
MOST_TRIALS = 4096
"""Maximum trials per folder; a name that claims more was not written by a run."""
_NAME = re.compile(r"\d{6,}(-\d{6,})?(\+\d{6,}(-\d{6,})?)*")


def chunk_name(trials: Iterable[int]) -> str:
    """The folder name for these trials."""
    parts: list[list[int]] = []
    for number in sorted(trials):
        if number < 0:
            raise ValueError(f"trials are numbered from 0, not {number}")
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return "+".join(f"{first:06d}" if first == last else f"{first:06d}-{last:06d}" for first, last in parts)


def trials_in(name: str) -> tuple[int, ...]:
    """The trials of a folder of this name; empty if it isn't such a name."""
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        return ()
    numbers: list[int] = []
    for part in name.split("+"):
        first, _, last = part.partition("-")
        span = range(int(first), int(last or first) + 1)
        if len(numbers) + len(span) > MOST_TRIALS:
            return ()
        numbers += span
    return tuple(numbers) if numbers and chunk_name(numbers) == name else ()


TRIALS = "trials"
PARTIAL = "partial"
DAMAGED = "damaged"
FRESH_AFTER = 16
"""Commits per connection: an in-memory database keeps a little of every statement until closed."""


class RunFolder:
    """A run's folder. Made with `create` or `open`; nothing is written before `commit` or `update_manifest`."""

    def __init__(self, path: Path, manifest: Mapping[str, Any]) -> None:
        self.path = path
        self._manifest = dict(manifest)
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._commits = 0
        self._taken: set[int] | None = None

    @classmethod
    def create(cls, path: Path, manifest: Mapping[str, Any]) -> Self:
        """Start a run in a new or empty folder. Fills in ``schema_version`` and, if absent, the identity ``run``."""
        with _explained(f"The run folder {path} can't be created", lambda _: "Choose a writable folder."):
            path.mkdir(parents=True, exist_ok=True)
            # A run killed while writing its first manifest may start again.
            if {entry.name for entry in path.iterdir()} - {manifests.UNFINISHED}:
                raise _occupied(path)
            complete = {"schema_version": SCHEMA_VERSION, "run": stamp(), "sealed": True, **manifest}
            manifests.write(path, complete | {"schema_version": SCHEMA_VERSION})
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a run for reading. Raises RunFolderError if it is missing, foreign, corrupt, newer or not readable."""
        return cls(path, manifests.read(path))

    @property
    def manifest(self) -> Mapping[str, Any]:
        """What was measured, where and with what."""
        return self._manifest

    @property
    def run(self) -> str:
        """The run's identity, unique across machines."""
        return str(self._manifest["run"])

    def resume(self) -> None:
        """Take over the run, removing unfinished work of a killed session. Requires the device's lock."""
        with _explained(f"The run folder {self.path} can't be taken over", lambda _: "Check who owns it."):
            if (self.path / PARTIAL).exists():
                shutil.rmtree(self.path / PARTIAL)
            (self.path / manifests.UNFINISHED).unlink(missing_ok=True)

    def set_aside(self, chunk: Path) -> Path:
        """Move a damaged folder of trials out of the run, to measure them again; returns its new path."""
        with _explained(f"{chunk} can't be set aside", lambda _: "Check who owns it."):
            home = self.path / DAMAGED
            home.mkdir(exist_ok=True)
            taken = {entry.name for entry in home.iterdir()}
            free = (f"{chunk.name}.{number}" if number else chunk.name for number in count())
            target = home / next(name for name in free if name not in taken)
            chunk.rename(target)
            self._taken = None
        return target

    def committed(self) -> frozenset[int]:
        """Numbers of the complete trials on disk."""
        return frozenset(number for numbers in self.chunks().values() for number in numbers)

    def chunks(self) -> dict[Path, tuple[int, ...]]:
        """Committed folders in order of their trials, and the trials in each."""
        home = self.path / TRIALS
        try:
            names = os.listdir(home)  # noqa: PTH208  (thousands of names: no Path for each)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise RunFolderError(
                f"{home} can't be read: {why(error)}.",
                hint="Check who owns the folder and its permissions.",
            ) from None
        found = sorted((numbers, name) for name in names if (numbers := trials_in(name)))
        return {home / name: numbers for numbers, name in found}

    def trial_path(self, trial: int) -> Path:
        """The folder of a committed trial, or the folder it would be committed to."""
        if trial < 0:
            raise ValueError(f"trials are numbered from 0, not {trial}")
        alone = self.path / TRIALS / chunk_name([trial])
        if alone.exists():
            return alone
        return next((path for path, numbers in self.chunks().items() if trial in numbers), alone)

    def commit(self, *trials: TrialRecords) -> None:
        """Add trials. On return they are on disk; if this fails or is killed, the run is unchanged.

        Raises:
            RunFolderError: One already exists, or they can't be written (disk full, quota, permission).
        """
        numbers = [int(records.trial["trial"]) for records in trials]
        what = f"Trial {numbers[0]}" if len(numbers) == 1 else f"Trials {min(numbers)} to {max(numbers)}"
        self._place(what, chunk_name(numbers), numbers, lambda folder: self._write(trials, folder))

    def adopt(self, name: str, files: Mapping[str, bytes]) -> None:
        """Add trials that another machine wrote and sealed for this run, all or none.

        Args:
            name: Name of their folder on the other machine.
            files: Its files.

        Raises:
            RunFolderError: They already exist, don't match their seal, or can't be written.
        """
        again = f"Measure them again: {resume_command(self.path)}"
        numbers = trials_in(name)
        if not numbers or any(Path(file).name != file for file in files):
            raise RunFolderError(f"{name[:80]!r} arrived for {self.path}, but has no trials.", hint=again)

        def fill(folder: Path) -> None:
            for file, content in files.items():
                (folder / file).write_bytes(content)
                sync(folder / file)
            seals.check(folder, self.run, required=True)
            sync(folder)

        try:
            self._place(f"Trials {name}", name, numbers, fill)
        except seals.Broken as broken:
            raise RunFolderError(f"Trials {name} arrived damaged: {broken}.", hint=again) from None

    def _place(self, what: str, name: str, numbers: Sequence[int], fill: Callable[[Path], None]) -> None:
        """Fill a folder out of sight, then commit it by a rename."""
        target = self.path / TRIALS / name
        with held(), _explained(f"{what} could not be written to {self.path}", self._all_safe):
            if self._taken is None:  # listing thousands of names at every commit takes time, and leaves gaps in memory
                self._taken = set(self.committed())
            if doubled := self._taken.intersection(numbers):
                raise RunFolderError(
                    f"Trial {min(doubled)} is already in {self.path}.",
                    hint=f"Continue after it: {resume_command(self.path)}",
                )
            unfinished = self.path / PARTIAL / name
            try:
                _remove(unfinished)
                unfinished.mkdir(parents=True)
                fill(unfinished)
                first = not target.parent.exists()
                target.parent.mkdir(exist_ok=True)
                unfinished.rename(target)
            except BaseException:
                _remove(unfinished)
                raise
            self._taken.update(numbers)
            sync(target.parent)
            if first:
                sync(self.path)

    def update_manifest(self, **changes: Any) -> None:
        """Change entries of the manifest atomically."""
        changed = self._manifest | changes
        with _explained(f"The manifest of {self.path} could not be written", self._all_safe):
            manifests.write(self.path, changed)
        # As a later reader will see it: tuples as lists, keys as text.
        self._manifest = json.loads(json.dumps(changed))

    def export(self, table: str, destination: "Path | Literal['-']", format: "Format | None" = None) -> None:  # noqa: A002  (the word of the command line)
        """Write a table to a file, or to standard output if the destination is "-"; see `export.export`."""
        from cotenant.store import export

        export.export([self.path], table, destination, format)

    def _write(self, trials: Sequence[TrialRecords], folder: Path) -> None:
        self._commits += 1
        if self._connection is None or self._commits % FRESH_AFTER == 0:
            if self._connection is not None:
                self._connection.close()
            # One thread: a few thousand rows gain nothing from a second, whose allocator keeps memory of its own.
            self._connection = parquet.memory(threads=1)
        with parquet.loaded(self._connection, trials, self.run) as queries:
            files = [folder / f"{table}.parquet" for table in queries]
            for query, file in zip(queries.values(), files, strict=True):
                parquet.write(self._connection, query, file)
        rows = parquet.rows_by_trial(trials)
        files.append(seals.write(folder, run=self.run, name=folder.name, rows=rows))
        # After writing all: the first sync writes most of the others' data too.
        for file in files:
            sync(file)
        sync(folder)

    def _all_safe(self, disk_full: bool) -> str:
        step = "Free some space" if disk_full else "Fix that"
        return f"All {len(self.committed())} earlier trials are safe. {step}, then resume: {resume_command(self.path)}"


def require_no_record(target: Path) -> None:
    """Refuse to overwrite files of a run. Raises RunFolderError."""
    resolved = target.resolve()
    manifest = resolved.name == manifests.NAME and resolved.exists()
    of_trial = any(up.name == TRIALS and (up.parent / manifests.NAME).exists() for up in resolved.parents)
    if manifest or of_trial:
        raise RunFolderError(
            f"{target} is part of a run, and records are never overwritten.", hint="Choose another place."
        )


def resume_command(path: Path) -> str:
    """The command that resumes a run."""
    return f"cotenant run --resume {shlex.quote(str(path))}"


def _occupied(path: Path) -> RunFolderError:
    if not (path / manifests.NAME).exists():
        return RunFolderError(f"{path} is not empty.", hint="Choose another folder.")
    return RunFolderError(
        f"{path} already contains a run.",
        hint=f"Choose another folder, or resume that run: {resume_command(path)}",
    )


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


@contextmanager
def _explained(what: str, hint: Callable[[bool], str]) -> Iterator[None]:
    """Turn a failed write into a sentence; the hint may depend on whether the disk is full."""
    try:
        yield
    except Exception as error:
        # By name: a process that only writes a manifest doesn't load the database for its errors.
        by_database = type(error).__module__ == "_duckdb" and type(error).__name__ == "IOException"
        if not isinstance(error, OSError) and not by_database:
            raise
        reason = system_words(error)
        raise RunFolderError(f"{what}: {reason}.", hint=hint(reason in _FULL), reason=reason) from None


_FULL = {os.strerror(code).lower() for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)}


def write_whole(path: AnyPath, text: str) -> Path:
    """Write a file of results, folders above it included; a reader of the old file never sees half of the new.

    Raises:
        RunFolderError: It is a record of a run, or can't be written.
    """
    path = Path(path)
    require_no_record(path)
    try:
        replace_file(path, text)
    except OSError as error:
        raise RunFolderError(f"{path} can't be written: {why(error)}.", hint="Choose another file.") from None
    return path
