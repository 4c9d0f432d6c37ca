"""Names for runs to compare with: one small file for each name under `runs/.baselines`, and never a copy of a run.

They live beside the runs and not in the user's home, since `main` means another run in every project. A file for each
name means that two people (or two jobs) who save different names never overwrite each other's.
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
    """Remember a run under a name, in place of what had that name before; gives the file.

    Raises:
        RunFolderError: It is no run, the name can't be one, or the file can't be written.
    """
    if not _NAME.fullmatch(name):
        raise RunFolderError(
            f"{name!r} can't be the name of a baseline.",
            hint="Use up to 64 letters, digits, dots, hyphens and underscores, beginning with a letter or digit.",
        )
    folder = RunFolder.open(run)
    entry = {"run": folder.run, "folder": os.path.relpath(run.resolve(), home.resolve())}
    file = home / f"{name}.json"
    draft = home / f".{name}.{os.getpid()}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(entry) + "\n", encoding="utf-8")
        draft.replace(file)
    except OSError as error:
        raise RunFolderError(
            f"The baseline {name} can't be written to {home}: {(error.strerror or str(error)).lower()}.",
            hint="Go to a folder that you may write to.",
        ) from None
    return file


def resolve(named: str, home: Path = HOME) -> Path:
    """The run folder that an argument means: a path to one, or the name of a baseline.

    Raises:
        RunFolderError: It is neither, or the baseline's run is gone.
    """
    path = Path(named)
    if (path / manifest.NAME).exists():
        return path
    file = home / f"{named}.json"
    if not _NAME.fullmatch(named) or not file.exists():
        if path.exists():
            RunFolder.open(path)  # says what is wrong with it
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
            f"The baseline {named} means run {run}, which is no longer at {found}.",
            hint=f"Put it back, or save another run: cotenant compare RUN --save {named}",
        )
    return found


def names(home: Path = HOME) -> list[str]:
    """All baselines, in order."""
    return sorted(file.stem for file in home.glob("*.json") if not file.name.startswith("."))


def _hint(named: str, home: Path) -> str:
    known = names(home)
    if meant := did_you_mean(named, known):
        return meant
    if known:
        return f"Baselines here: {', '.join(known)}."
    return "Name a folder that `run` printed, or save a baseline: cotenant compare RUN --save NAME"
