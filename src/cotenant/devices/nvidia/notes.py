"""Restore notes on disk: a killed run can't restore the controls it set, but the next command can."""

import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cotenant import opening
from cotenant.cache import state_folder

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SettingsNote:
    """A GPU's state before a change; None: unchanged. Locks can't be read, so undoing a lock means unlocking."""

    power_limit_w: float | None = None
    persistence: bool | None = None
    unlock_sm: bool = False
    unlock_memory: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """Who changed which GPU, and its state before."""

    uuid: str
    pid: int
    started: str
    """When that process started, to tell it from another with the same pid."""
    before: SettingsNote

    @property
    def orphaned(self) -> bool:
        """True if the process is gone without restoring."""
        return process_start(self.pid) != self.started


def write(uuid: str, before: SettingsNote) -> None:
    """Write the note atomically, before any change. If it can't be written, the run continues without."""
    note = Note(uuid, os.getpid(), process_start(os.getpid()) or "", before)
    with suppress(OSError):
        _folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        new = _folder() / f".{uuid}.{os.getpid()}"
        new.write_text(json.dumps(asdict(note)), encoding="utf-8")
        new.replace(_path(uuid))


def remove(uuid: str) -> None:
    """Remove the note: everything is restored."""
    with suppress(OSError):
        _path(uuid).unlink()


def read(uuid: str) -> Note | None:
    """The note about a GPU, if any."""
    try:
        path = _path(uuid)
        if path.stat(follow_symlinks=False).st_uid != os.geteuid():
            return None  # don't act on another user's notes
        return _note(json.loads(opening.read_text(path, follow=False)))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("ignoring the note %s: %s", _path(uuid), error)
        return None


def process_start(pid: int) -> str | None:
    """When a running process started, in kernel ticks since boot, with the boot's id."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None
    return f"{boot}/{stat.rpartition(')')[2].split()[19]}"


def _note(kept: Mapping[str, Any]) -> Note:
    before = kept["before"]
    watts, persistence = before["power_limit_w"], before["persistence"]
    return Note(
        uuid=str(kept["uuid"]),
        pid=int(kept["pid"]),
        started=str(kept["started"]),
        before=SettingsNote(
            power_limit_w=None if watts is None else float(watts),
            persistence=None if persistence is None else bool(persistence),
            unlock_sm=bool(before["unlock_sm"]),
            unlock_memory=bool(before["unlock_memory"]),
        ),
    )


def _path(uuid: str) -> Path:
    return _folder() / f"{''.join(c for c in uuid if c.isalnum() or c == '-')}.json"


def _folder() -> Path:
    return state_folder("controls")
