"""Describes in one clause what the user's code raised and where, instead of a traceback."""

import sysconfig
import traceback
from pathlib import Path

_OURS = str(Path(__file__).resolve().parents[2])
_LIBRARIES = tuple(sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib"))


def what_and_where(error: BaseException) -> str:
    """For example `KeyError: 'width' (model.py:12)`; the line is the last one in the user's code, not a library's."""
    text = str(error).strip()
    first_line = text.splitlines()[0] if text else ""
    what = f"{type(error).__name__}: {first_line[:300]}" if first_line else type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return f"{what} ({_shown(error.filename)}:{error.lineno})"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(("<frozen", _OURS))]
    theirs = [f for f in frames if not f.filename.startswith(_LIBRARIES)] or frames
    return f"{what} ({_shown(theirs[-1].filename)}:{theirs[-1].lineno})" if theirs else what


def _shown(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename
