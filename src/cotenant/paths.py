"""Paths as callers give them: as text or as path objects, one run folder or several; the database's folder."""

import os
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from cotenant.errors import DatabaseError

AnyPath = str | PathLike[str]
Runs = AnyPath | Sequence[AnyPath]
DATABASE = Path("runs/.database")


def run_paths(runs: Runs) -> list[Path]:
    """The folders as paths."""
    return [Path(runs)] if isinstance(runs, str | PathLike) else [Path(run) for run in runs]


def home_of(db: AnyPath | None) -> Path:
    """The database's folder: the one given, or the default."""
    home = Path(db or os.environ.get("COTENANT_DB") or DATABASE)
    if home.exists() and not home.is_dir():
        raise DatabaseError(f"{home} is a file; a database is a folder.", hint="name a folder: --db DIR")
    return home
