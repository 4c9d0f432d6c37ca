"""Paths as callers give them: as text or as path objects, one run folder or several."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

AnyPath = str | PathLike[str]
Runs = AnyPath | Sequence[AnyPath]


def run_paths(runs: Runs) -> list[Path]:
    """The folders as paths."""
    return [Path(runs)] if isinstance(runs, str | PathLike) else [Path(run) for run in runs]
