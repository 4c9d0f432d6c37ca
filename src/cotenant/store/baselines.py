"""Named baselines for comparisons: a small file per name under `runs/.baselines`, never a copy of a run.

They live beside the runs rather than in the user's home, since `main` is a different run in every project. With a
file per name, concurrent saves under different names never overwrite each other.
"""

import json
import os
import re
from pathlib import Path

from cotenant import opening
from cotenant.errors import RunFolderError
from cotenant.store import manifest
from cotenant.store.folder import RunFolder
from cotenant.text import did_you_mean

HOME = Path("runs/.baselines")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def save(run: Path, name: str, home: Path = HOME) -> Path:
    """Save a run under a name, replacing any previous baseline; returns the file.

    Raises:
        RunFolderError: It isn't a run, the name is invalid, or the file can't be written.
    """
    if not _NAME.fullmatch(name):
        raise RunFolderError(
            f"{name!r} is not a valid baseline name.",
            hint="Use up to 64 letters, digits, dots, hyphens and underscores, beginning with a letter or digit.",
        )
    folder = RunFolder.open(run)
    entry = {"run": folder.run, "folder": os.path.relpath(run.resolve(), home.resolve())}
    file = home / f"{name}.json"
    try:
        opening.replace_file(file, json.dumps(entry) + "\n")
    except OSError as error:
        raise RunFolderError(
            f"The baseline {name} can't be written to {home}: {opening.why(error)}.",
            hint="Change to a writable folder.",
        ) from None
    return file


def resolve(named: str, home: Path = HOME) -> Path:
    """The run folder of an argument: a path, or the name of a baseline.

    Raises:
        RunFolderError: It is neither, or the baseline's run is gone.
    """
    path = Path(named)
    if (path / manifest.NAME).exists():
        return path
    file = home / f"{named}.json"
    if not _NAME.fullmatch(named) or not file.exists():
        if path.exists():
            RunFolder.open(path)  # raises the specific error
        raise RunFolderError(f"There is no run folder and no baseline {named!r}.", hint=_hint(named, home))
    try:
        entry = json.loads(opening.read_text(file))
        run, folder = str(entry["run"]), home / str(entry["folder"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RunFolderError(
            f"The baseline {named} can't be read: {file} is damaged ({type(error).__name__}).",
            hint=f"Save it again: cotenant compare RUN --save {named}",
        ) from None
    found = Path(os.path.normpath(folder))
    if not (found / manifest.NAME).exists() or RunFolder.open(found).run != run:
        raise RunFolderError(
            f"The baseline {named} refers to run {run}, which is no longer at {found}.",
            hint=f"Put it back, or save another run: cotenant compare RUN --save {named}",
        )
    return found


def names(home: Path = HOME) -> list[str]:
    """All baselines, sorted."""
    return sorted(file.stem for file in home.glob("*.json") if not file.name.startswith("."))


def _hint(named: str, home: Path) -> str:
    known = names(home)
    if meant := did_you_mean(named, known):
        return meant
    if known:
        return f"Baselines here: {', '.join(known)}."
    return "Use a folder printed by `run`, or save a baseline: cotenant compare RUN --save NAME"
