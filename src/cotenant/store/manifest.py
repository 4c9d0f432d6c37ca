"""The manifest of a run: read with every way it can be wrong named, replaced only as a whole."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cotenant.errors import RunFolderError
from cotenant.tenancy.records import SCHEMA_VERSION

NAME = "manifest.json"
UNFINISHED = "manifest.json.new"


def read(folder: Path) -> dict[str, Any]:
    """The manifest of a run folder; raises RunFolderError with what is wrong and what to do."""
    path = folder / NAME
    try:
        if not folder.exists():
            raise RunFolderError(
                f"There is no run folder at {folder}.", hint="Check the path, or measure: cotenant run"
            )
        if not folder.is_dir():
            raise RunFolderError(f"{folder} is a file, not a run folder.", hint="Name the folder that `run` printed.")
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise RunFolderError(
            f"{folder} is not a run folder: it has no {NAME}.", hint="Name the folder that `run` printed."
        ) from None
    except UnicodeDecodeError:
        raise _corrupt(path, "it is not text") from None
    except OSError as error:
        raise RunFolderError(
            f"{path} can't be read: {_reason(error)}.", hint="Check who owns the folder and its permissions."
        ) from None
    return _checked(folder, path, text)


def _checked(folder: Path, path: Path, text: str) -> dict[str, Any]:
    try:
        manifest = json.loads(text)
    except json.JSONDecodeError as error:
        raise _corrupt(path, f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise _corrupt(path, "it is nested too deeply") from None
    except ValueError:
        raise _corrupt(path, "it holds a number that is too long") from None
    version = manifest.get("schema_version") if isinstance(manifest, dict) else None
    if not isinstance(version, int):
        raise RunFolderError(
            f"{folder} is not a run folder: its {NAME} was not written by cotenant.",
            hint="Name the folder that `run` printed.",
        )
    if version > SCHEMA_VERSION:
        raise RunFolderError(
            f"{folder} was written by a newer cotenant (schema {version}, this one reads up to {SCHEMA_VERSION}).",
            hint="Upgrade: pip install --upgrade cotenant",
        )
    if not isinstance(manifest.get("run"), str) or not manifest["run"]:
        raise _corrupt(path, "the run's identity is missing")
    return dict(manifest)


def write(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Replace the manifest in one step: whoever reads sees the old one or the new one. Raises OSError."""
    text = json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    unfinished = folder / UNFINISHED
    try:
        with unfinished.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(folder / NAME)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    sync(folder)


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _corrupt(path: Path, how: str) -> RunFolderError:
    return RunFolderError(
        f"{path} is corrupt: {how}.",
        hint="The trials beside it may be whole: restore the manifest from a copy, then resume or read the run.",
    )


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
