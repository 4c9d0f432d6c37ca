"""A model file on disk: its presence and identity."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cotenant import opening
from cotenant.errors import WorkloadError


def existing_file(name: str) -> Path:
    """The file the name refers to.

    Raises:
        WorkloadError: There is none, or it is a directory.
    """
    path = Path(name).expanduser()
    if not path.exists():
        raise WorkloadError(f"there is no file `{name}` (looked from {Path.cwd()})")
    if not path.is_file():
        raise WorkloadError(f"`{name}` is not a file")
    return path


def identity(path: Path) -> Mapping[str, Any]:
    """What to record, so that a reader can tell whether it was the same file."""
    with opening.open_file(path, most=opening.TABLE_BYTES) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"file": str(path.resolve()), "file_bytes": path.stat().st_size, "sha256": digest}
