"""Find runs below a folder and detect changes."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cotenant.store.folder import TRIALS
from cotenant.store.manifest import NAME

DEEPEST = 3
"""Levels of folders below the root: `runs/<study>/<run>` needs two."""


class Stamp(NamedTuple):
    """Equal stamps mean an unchanged run: manifests are replaced atomically, and trials are new names in a folder."""

    manifest_ns: int
    manifest_size: int
    manifest_inode: int
    trials_ns: int


class Found(NamedTuple):
    """A run folder."""

    folder: str
    """A string: thousands of Path objects would be slow."""
    stamp: Stamp


def find_runs(root: Path) -> Iterator[Found]:
    """Every run at or below ``root``, without reading any. Links are not followed: they could lead outside."""
    yield from _below(str(root), DEEPEST)


def look_at(folder: str) -> Stamp | None:
    """The stamp of a run folder; None if it isn't one."""
    try:
        manifest = os.lstat(f"{folder}/{NAME}")
    except OSError:
        return None
    if not stat.S_ISREG(manifest.st_mode):
        return None  # a pipe would block, and a link could lead anywhere
    try:
        trials_ns = os.lstat(f"{folder}/{TRIALS}").st_mtime_ns
    except OSError:
        trials_ns = 0
    return Stamp(manifest.st_mtime_ns, manifest.st_size, manifest.st_ino, trials_ns)


def _below(folder: str, levels: int) -> Iterator[Found]:
    stamp = look_at(folder)
    if stamp is not None:
        yield Found(folder, stamp)
        return
    if levels == 0:
        return
    try:
        with os.scandir(folder) as entries:
            visible = [entry for entry in entries if not entry.name.startswith(".")]
            inner = [entry.path for entry in visible if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return  # deleted meanwhile, or not readable
    for path in inner:
        yield from _below(path, levels - 1)
