"""Private folder for restore notes: only this user may write it, since the notes are acted upon."""

import os
import stat
import tempfile
from pathlib import Path


def state_folder(kind: str) -> Path:
    """The folder for notes of a kind; not created yet.

    Raises:
        OSError: There is no home directory, and its substitute belongs to another user.
    """
    if named := os.environ.get("XDG_STATE_HOME"):
        return Path(named) / "cotenant" / kind
    try:
        return Path.home() / ".local" / "state" / "cotenant" / kind
    except RuntimeError:  # container user without a home
        return _own_temporary() / kind


def _own_temporary() -> Path:
    """A folder in the temporary directory, where another user may have created it first: only accept our own."""
    path = Path(tempfile.gettempdir()) / f"cotenant-state-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    seen = path.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid() or seen.st_mode & 0o077:
        raise PermissionError(f"{path} is not private to this user")
    return path
