"""Run arguments: one folder or several, as text or paths."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

Runs = str | PathLike[str] | Sequence[str | PathLike[str]]


def run_paths(runs: Runs) -> list[Path]:
    """The folders as paths."""
    return [Path(runs)] if isinstance(runs, str | PathLike) else [Path(run) for run in runs]
