"""The folder for what cotenant can make or fetch again."""

import os
from pathlib import Path


def cache_folder(what: str) -> Path:
    """A folder in the user's cache; it may not exist yet."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "cotenant" / what
