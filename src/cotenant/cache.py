"""Folders of this user: for what cotenant can measure, make or fetch again, and for notes that are acted upon."""

import os
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path


def cache_folder(what: str) -> Path:
    """A folder in the user's cache; it may not exist yet."""
    if named := os.environ.get("XDG_CACHE_HOME"):
        return Path(named) / "cotenant" / what
    try:
        return Path.home() / ".cache" / "cotenant" / what
    except RuntimeError:  # a container's user without a home
        return _without_home() / what


@cache
def _without_home() -> Path:
    """A folder of this user alone: what is cached is believed."""
    folder = Path(tempfile.gettempdir()) / f"cotenant-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    mine = folder.is_dir() and not folder.is_symlink() and found.st_uid == os.getuid()
    return folder if mine else Path(tempfile.mkdtemp(prefix="cotenant-"))


# --- restore notes: only this user may write them, since they are acted upon


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
