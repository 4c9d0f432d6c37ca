"""One run of the list, from its manifest alone."""

import hashlib
import os
import platform
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from cotenant.errors import RunFolderError
from cotenant.measure.calibration import FIRST_NUMBER
from cotenant.store.folder import TRIALS, RunFolder
from cotenant.store.manifest import NAME
from cotenant.text import NOTHING

# --- find runs below a folder and detect changes

DEEPEST = 3
"""Levels of folders below the root: `runs/<study>/<run>` needs two."""


class Stamp(NamedTuple):
    """Equal stamps mean an unchanged run: manifests are replaced atomically, and trials are new names in a folder."""

    manifest_ns: int
    manifest_size: int
    manifest_inode: int
    trials_ns: int


class Found(NamedTuple):
    """A run folder."""

    folder: str
    """A string: thousands of Path objects would be slow."""
    stamp: Stamp


def find_runs(root: Path) -> Iterator[Found]:
    """Every run at or below ``root``, without reading any. Links are not followed: they could lead outside."""
    yield from _below(str(root), DEEPEST)


def look_at(folder: str) -> Stamp | None:
    """The stamp of a run folder; None if it isn't one."""
    try:
        manifest = os.lstat(f"{folder}/{NAME}")
    except OSError:
        return None
    if not stat.S_ISREG(manifest.st_mode):
        return None  # a pipe would block, and a link could lead anywhere
    try:
        trials_ns = os.lstat(f"{folder}/{TRIALS}").st_mtime_ns
    except OSError:
        trials_ns = 0
    return Stamp(manifest.st_mtime_ns, manifest.st_size, manifest.st_ino, trials_ns)


def _below(folder: str, levels: int) -> Iterator[Found]:
    stamp = look_at(folder)
    if stamp is not None:
        yield Found(folder, stamp)
        return
    if levels == 0:
        return
    try:
        with os.scandir(folder) as entries:
            visible = [entry for entry in entries if not entry.name.startswith(".")]
            inner = [entry.path for entry in visible if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return  # deleted meanwhile, or not readable
    for path in inner:
        yield from _below(path, levels - 1)


State = Literal["running", "complete", "interrupted", "failed", "cut short", "unknown", "unreadable"]
STATES: Mapping[State, str] = {
    "running": "in progress",
    "complete": "finished as planned",
    "interrupted": "stopped by the user; can be resumed",
    "failed": "stopped by an error; can be resumed",
    "cut short": "its process died without a record; can be resumed",
    "unknown": "the manifest has no state",
    "unreadable": "can't be read",
}
WRITTEN: tuple[State, ...] = ("running", "complete", "interrupted", "failed")
"""States a manifest may hold; the others are inferred."""


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A run in the list."""

    key: str
    """Identifies the run in URLs without revealing its location."""
    path: Path
    stamp: Stamp
    name: str
    study: str = NOTHING
    device: str = NOTHING
    simulated: bool = False
    started_utc: str = ""
    state: State = "unknown"
    why: str = ""
    """Why it ended, or what is wrong with it."""
    trials: frozenset[int] = frozenset()
    """Indices of the trials on disk that belong to a block."""
    process: tuple[str, int] | None = None
    """Host and process of its last session."""

    @property
    def day(self) -> str:
        """Start time, to the minute."""
        return self.started_utc[:16].replace("T", " ") or NOTHING

    def alive(self) -> "RunEntry":
        """The entry with the state of a supposedly running process verified."""
        if self.state != "running" or self.process is None:
            return self
        host, pid = self.process
        if host != platform.node() or _exists(pid):
            return self  # processes of another machine can't be checked
        return replace(self, state="cut short")


def read_entry(run: Found, root: Path) -> RunEntry:
    """Read a run's manifest and the names of its trials. Problems become part of the entry."""
    path = Path(run.folder)
    name = path.name if path == root else str(path.relative_to(root))
    begun = datetime.fromtimestamp(run.stamp.manifest_ns / 1e9, UTC).isoformat()
    entry = RunEntry(key_of(name), path, run.stamp, name, started_utc=begun)
    try:
        folder = RunFolder.open(path)
        trials = frozenset(number for number in folder.committed() if number < FIRST_NUMBER)
    except RunFolderError as error:
        return replace(entry, state="unreadable", why=error.message.replace(f"{root}/", ""))
    manifest = folder.manifest
    sessions = [session for session in _list(manifest.get("sessions")) if isinstance(session, Mapping)]
    first, last = (sessions[0], sessions[-1]) if sessions else ({}, {})
    state = manifest.get("state")
    return replace(
        entry,
        study=str(manifest.get("study_name") or NOTHING),
        device=str(manifest.get("device") or NOTHING),
        simulated=bool(manifest.get("simulated")),
        started_utc=_time(first.get("started_utc")) or begun,
        state=next((written for written in WRITTEN if written == state), "unknown"),
        why=str(manifest.get("why") or ""),
        trials=trials,
        process=(str(last["host"]), last["pid"]) if "host" in last and isinstance(last.get("pid"), int) else None,
    )


def key_of(name: str) -> str:
    """Stable key of a folder. A hash, so that no part of a URL is ever used as a path."""
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _time(value: Any) -> str:
    """ISO 8601 in UTC, or empty if invalid: the list is sorted by it."""
    try:
        return datetime.fromisoformat(str(value)).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        return ""


def _exists(pid: int) -> bool:
    import psutil

    return bool(psutil.pid_exists(pid))
