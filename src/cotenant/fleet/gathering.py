"""Copy runs from other nodes: find them below a folder, send all their files, and move them into place atomically."""

import io
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

from cotenant.errors import FleetError, RunFolderError
from cotenant.fleet.wire import MOST_BYTES
from cotenant.store import manifest as manifests
from cotenant.store.folder import PARTIAL, RunFolder
from cotenant.store.naming import slug

DEEPEST = 4
"""Depth of the search for runs."""


def runs_below(folder: Path, depth: int = DEEPEST) -> Iterator[Path]:
    """Run folders in a folder, including itself; runs are not nested."""
    if (folder / manifests.NAME).is_file():
        yield folder
        return
    if depth and folder.is_dir():
        for entry in sorted(folder.iterdir()):
            if entry.is_dir() and not entry.is_symlink() and not entry.name.startswith("."):
                yield from runs_below(entry, depth - 1)


def run_parcel(folder: Path) -> bytes:
    """A run with its manifest and its committed trials. Raises RunFolderError if it isn't one, or is too large."""
    run = RunFolder.open(folder)
    files = [folder / manifests.NAME, *(file for chunk in run.chunks() for file in sorted(chunk.iterdir()))]
    size = sum(file.stat().st_size for file in files)
    if size > MOST_BYTES:
        raise RunFolderError(
            f"{folder} has {size / 2**30:.1f} GiB, too much to send at once",
            hint=f"copy it: rsync -a {folder} HERE:runs/",
        )
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for file in files:
            archive.add(file, arcname=str(file.relative_to(folder)), recursive=False)
    return whole.getvalue()


def put_in_place(data: bytes, home: Path, name: str) -> Path:
    """Unpack a run below ``home``, unless it already exists. Returns its folder.

    Raises:
        FleetError: It is not a run.
    """
    target = home / slug(name)
    if target.exists():
        return target
    unfinished = home / PARTIAL / slug(name)
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            archive.extractall(unfinished, filter="data")
        RunFolder.open(unfinished)
        unfinished.rename(target)
    except (tarfile.TarError, RunFolderError, OSError) as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise FleetError(f"run {name} arrived damaged: {error}", hint="gather it again") from None
    return target
