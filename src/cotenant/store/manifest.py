"""The manifest of a run: every way it can be invalid is reported, and it is only replaced atomically."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from cotenant import opening
from cotenant.errors import RunFolderError, StudyError
from cotenant.tenancy.records import SCHEMA_VERSION

NAME = "manifest.json"
CHECKSUM = "sha256"
"""The key of the manifest's checksum over all other entries."""
KINDS: Mapping[str, type[Any]] = {
    "capacity_rps": dict,
    "device_description": dict,
    "gaps": list,
    "instrument": dict,
    "left_out": list,
    "modes": list,
    "sensors": list,
    "sessions": list,
    "simulation": dict,
    "trials": int,
}
"""Required types of entries, if present."""
_WORDS: Mapping[type[Any], str] = {dict: "a mapping", list: "a list", int: "a number"}
UNFINISHED = "manifest.json.new"
PROFILE_PASS = "profile_pass"  # noqa: S105 - not a password
"""Marks a run whose tenants were profiled, so that its times are not used."""


def read(folder: Path) -> dict[str, Any]:
    """The manifest of a run folder. Raises RunFolderError with what is wrong and what to do."""
    path = folder / NAME
    try:
        if not folder.exists():
            raise RunFolderError(
                f"There is no run folder at {folder}.", hint="Check the path, or measure: cotenant run"
            )
        if not folder.is_dir():
            raise RunFolderError(f"{folder} is a file, not a run folder.", hint="Use the folder printed by `run`.")
        text = opening.read_text(path, follow=False)
    except FileNotFoundError:
        raise RunFolderError(
            f"{folder} is not a run folder: it has no {NAME}.", hint="Use the folder printed by `run`."
        ) from None
    except UnicodeDecodeError:
        raise _corrupt(path, "it is not text") from None
    except OSError as error:
        raise RunFolderError(
            f"{path} can't be read: {opening.why(error)}.", hint="Check who owns the folder and its permissions."
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
        raise _corrupt(path, "it contains a number that is too long") from None
    version = manifest.get("schema_version") if isinstance(manifest, dict) else None
    if not isinstance(version, int):
        raise RunFolderError(
            f"{folder} is not a run folder: its {NAME} was not written by cotenant.",
            hint="Use the folder printed by `run`.",
        )
    if version > SCHEMA_VERSION:
        raise RunFolderError(
            f"{folder} was written by a newer cotenant (schema {version}, this one reads up to {SCHEMA_VERSION}).",
            hint="Upgrade: pip install --upgrade cotenant",
        )
    if not isinstance(manifest.get("run"), str) or not manifest["run"]:
        raise _corrupt(path, "the run's identity is missing")
    for key, kind in KINDS.items():
        if not isinstance(manifest.get(key, kind()), kind):
            raise _corrupt(path, f"{key!r} is not {_WORDS[kind]}")
    expected = manifest.pop(CHECKSUM, None)
    if expected is not None and expected != checksum(manifest):
        raise _corrupt(path, "its content has changed since it was written")
    return dict(manifest)


def write(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Replace the manifest atomically. Raises OSError."""
    plain = json.loads(json.dumps(manifest, allow_nan=False))  # as a reader will see it: keys are text
    text = json.dumps({**plain, CHECKSUM: checksum(plain)}, indent=1, ensure_ascii=False) + "\n"
    opening.replace_file(folder / NAME, text, draft=UNFINISHED)


def checksum(manifest: Mapping[str, Any]) -> str:
    """The SHA-256 of plain data, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _corrupt(path: Path, how: str) -> RunFolderError:
    return RunFolderError(
        f"{path} is corrupt: {how}.",
        hint="The trials beside it may be intact: restore the manifest from a copy, then resume or read the run.",
    )


# --- the study behind a run, read back


def own_loads(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Loads of tenants that have their own, by name."""
    return _of_tenants(manifest, "load")


def workloads_of(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The workload of each tenant, by name."""
    return _of_tenants(manifest, "workload")


def _of_tenants(manifest: Mapping[str, Any], key: str) -> dict[str, str]:
    try:
        tenants = _study(str(manifest.get("study", "")))["tenants"].items()
        return {str(name): str(entry[key]) for name, entry in tenants if entry.get(key)}
    except (StudyError, KeyError, TypeError, AttributeError, ValueError):  # not written by `run`
        return {}


def asked_interval(manifests: Sequence[Mapping[str, Any]]) -> float | None:
    """The target precision of slowdowns (relative half-width), if all runs are of the same study."""
    from cotenant.tenancy.words import share_of_one

    studies = {str(manifest.get("study", "")) for manifest in manifests}
    if len(studies) != 1 or not (text := studies.pop()):
        return None
    try:
        return share_of_one(_study(text)["until"]["interval"])
    except (StudyError, KeyError, TypeError, ValueError):  # no target, or not written by `run`
        return None


@lru_cache(maxsize=32)
def _study(text: str) -> Any:
    from cotenant.tenancy.document import NotYaml
    from cotenant.tenancy.document import read as read_yaml

    try:
        return read_yaml(text).data
    except NotYaml as error:
        raise ValueError(str(error)) from None
