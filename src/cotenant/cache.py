"""The folder for what cotenant can measure, make or fetch again."""

import os
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
