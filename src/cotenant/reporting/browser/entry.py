"""One run as a list shows it, from its manifest alone."""

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from cotenant.errors import RunFolderError
from cotenant.measure.calibration import FIRST_NUMBER
from cotenant.reporting.browser.finding import Found, Stamp
from cotenant.store.folder import RunFolder
from cotenant.text import NOTHING

State = Literal["running", "complete", "interrupted", "failed", "cut short", "unknown", "unreadable"]
STATES: Mapping[State, str] = {
    "running": "it is being measured",
    "complete": "it ended as the study says",
    "interrupted": "somebody stopped it; it can be resumed",
    "failed": "an error ended it; it can be resumed",
    "cut short": "its process is gone and left no word; it can be resumed",
    "unknown": "its manifest does not say",
    "unreadable": "it can't be read",
}
WRITTEN: tuple[State, ...] = ("running", "complete", "interrupted", "failed")
"""What a manifest may say; the others are found out."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A run in the list."""

    key: str
    """Stands for the run in addresses; says nothing about where it is."""
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
    """Numbers of the trials on disk that belong to a block."""
    process: tuple[str, int] | None = None
    """Host and process of its last session."""

    @property
    def day(self) -> str:
        """When it began, to the minute."""
        return self.started_utc[:16].replace("T", " ") or NOTHING

    def alive(self) -> "Entry":
        """With what can be seen of a process that said it was running."""
        if self.state != "running" or self.process is None:
            return self
        host, pid = self.process
        if host != platform.node() or _exists(pid):
            return self  # of another machine nothing can be seen from here
        return replace(self, state="cut short")


def read_entry(found: Found, root: Path) -> Entry:
    """Read a run's manifest and the names of its trials; whatever is wrong with it becomes part of the entry."""
    path = Path(found.folder)
    name = path.name if path == root else str(path.relative_to(root))
    begun = datetime.fromtimestamp(found.stamp.manifest_ns / 1e9, UTC).isoformat()
    entry = Entry(key_of(name), path, found.stamp, name, started_utc=begun)
    try:
        folder = RunFolder.open(path)
        trials = frozenset(number for number in folder.committed() if number < FIRST_NUMBER)
    except RunFolderError as error:
        return replace(entry, state="unreadable", why=error.message.replace(f"{root}/", ""))
    manifest = folder.manifest
    sessions = [one for one in _list(manifest.get("sessions")) if isinstance(one, Mapping)]
    first, last = (sessions[0], sessions[-1]) if sessions else ({}, {})
    state = manifest.get("state")
    return replace(
        entry,
        study=str(manifest.get("study_name") or NOTHING),
        device=str(manifest.get("device") or NOTHING),
        simulated=bool(manifest.get("simulated")),
        started_utc=_time(first.get("started_utc")) or begun,
        state=next((one for one in WRITTEN if one == state), "unknown"),
        why=str(manifest.get("why") or ""),
        trials=trials,
        process=(str(last["host"]), last["pid"]) if "host" in last and isinstance(last.get("pid"), int) else None,
    )


def key_of(name: str) -> str:
    """The same for the same folder, also after a restart; a hash, so that no text of an address ever is a path."""
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _time(value: Any) -> str:
    """In UTC and ISO 8601, or empty if it is no time: the list is sorted by it."""
    try:
        return datetime.fromisoformat(str(value)).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        return ""


def _exists(pid: int) -> bool:
    import psutil

    return bool(psutil.pid_exists(pid))
