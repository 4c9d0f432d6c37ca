"""Messages between the processes of a fleet, as bytes: facts and commands are JSON, trials the files of sealed folders.

Nothing is pickled: an object of another version can't be mistaken for ours, and a reply can't run code.
"""

import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cotenant import errors, opening
from cotenant.errors import CotenantError, FleetError

MOST_BYTES = 1 << 31
"""Size limit of one unpacked parcel."""


def packed(value: Any) -> bytes:
    """A value as JSON."""
    return json.dumps(value, default=_plain).encode()


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def unpacked(data: bytes) -> Any:
    """Decode a value. Raises FleetError if it is not JSON."""
    try:
        return json.loads(data)
    except ValueError:
        raise FleetError("a node sent invalid JSON", hint="install the same cotenant on all nodes") from None


def problem(error: CotenantError) -> bytes:
    """An error that happened elsewhere, to be raised here."""
    return packed({"problem": type(error).__name__, "message": error.message, "hint": error.hint})


def raise_problem(said: Mapping[str, Any], where: str) -> None:
    """Raise the error in a reply, if there is one; the message says where it happened."""
    if "problem" not in said:
        return
    kind = getattr(errors, str(said["problem"]), FleetError)
    kind = kind if isinstance(kind, type) and issubclass(kind, CotenantError) else FleetError
    try:
        raise kind(f"{where}: {said['message']}", hint=said.get("hint"))
    except TypeError:  # an error with other arguments
        raise FleetError(f"{where}: {said['message']}", hint=said.get("hint")) from None


def parcel(folder: Path) -> bytes:
    """A committed folder of trials with its files."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for file in sorted(folder.iterdir()):
            content = opening.read_bytes(file, most=MOST_BYTES, follow=False)
            entry = tarfile.TarInfo(f"{folder.name}/{file.name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return whole.getvalue()


def opened(data: bytes) -> dict[str, dict[str, bytes]]:
    """Contents of a parcel: folder -> file -> bytes. Raises FleetError unless it has only plain files in folders."""
    found: dict[str, dict[str, bytes]] = {}
    size = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for entry in archive:
                folder, _, file = entry.name.partition("/")
                size += entry.size
                if not entry.isfile() or not folder or not file or "/" in file or size > MOST_BYTES:
                    raise FleetError(f"a node sent {entry.name[:80]!r}, which is not a file of trials")
                content = archive.extractfile(entry)
                assert content is not None, "a plain file has content"
                found.setdefault(folder, {})[file] = content.read()
    except tarfile.TarError:
        raise FleetError("a node sent trials that can't be unpacked", hint="measure them again") from None
    return found
