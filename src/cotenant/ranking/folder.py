"""A search on disk: its settings, progress and features, each written atomically."""

import contextlib
import errno
import fcntl
import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from cotenant import opening
from cotenant.errors import RunFolderError
from cotenant.opening import drafted, replace_file
from cotenant.ranking.protocol import Features, SearchSettings

NAME = "search.json"
DRAFT = f".{NAME}.new"
RESULT = "result.json"
SCHEMA = 1


class SearchFolder:
    """The folder of one search. Features are stored under the model's digest: equal models share them."""

    def __init__(self, path: Path, known: dict[str, Any]) -> None:
        self.path = path
        self._known = known
        self._ends: dict[str, int] = {}

    @classmethod
    def create(cls, path: Path, settings: Mapping[str, Any]) -> Self:
        """Create a new folder, which must be empty."""
        try:
            path.mkdir(parents=True, exist_ok=True)
            # A search that was killed while it wrote its first note may start again.
            if {entry.name for entry in path.iterdir()} - {DRAFT}:
                raise RunFolderError(f"{path} is not empty", hint=f"choose another one, or {resume_command(path)}")
            folder = cls(path, {"schema_version": SCHEMA, "settings": dict(settings)})
            folder.note()
        except OSError as error:
            raise RunFolderError(
                f"the folder {path} can't be written: {opening.why(error)}",
                hint="choose another one with --out",
            ) from None
        return folder

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a folder left by a search."""
        try:
            known = json.loads(opening.read_text(path / NAME, follow=False))
            version = known["schema_version"]
            SearchSettings.from_json(known["settings"])
        except FileNotFoundError:
            raise RunFolderError(
                f"{path} is not a search: it has no {NAME}", hint="name the folder that `cotenant search` printed"
            ) from None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise RunFolderError(f"{path / NAME} can't be read: {error!r}", hint="start a new search") from None
        if version != SCHEMA:
            raise RunFolderError(f"{path} was written by another version of cotenant", hint="start a new search")
        return cls(path, known)

    @property
    def known(self) -> Mapping[str, Any]:
        """The state: settings, data, completed rounds, time spent."""
        return self._known

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Allow one search at a time in a folder; a killed one leaves no lock."""
        with (self.path / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunFolderError(f"a search is already running in {self.path}", hint="wait until it ends") from None
            yield

    def note(self, **changes: Any) -> None:
        """Change the state atomically."""
        known = self._known | changes
        with self._explained():
            replace_file(self.path / NAME, json.dumps(known, indent=1, ensure_ascii=False) + "\n", draft=DRAFT)
        self._known = json.loads(json.dumps(known))

    def write(self, name: str, text: str) -> Path:
        """Write another file atomically."""
        with self._explained():
            replace_file(self.path / name, text, draft=f".{name}.new")
        return self.path / name

    def have(self, leaf: str) -> int:
        """Number of items, from the first on, whose features exist for this model."""
        if leaf not in self._ends:
            end = 0
            for first, last, _ in self._parts(leaf):
                if first != end:
                    break
                end = last
            self._ends[leaf] = end
        return self._ends[leaf]

    def commit(self, leaf: str, first: int, features: Features) -> None:
        """Append features of the next items."""
        assert first == self.have(leaf)
        last = first + len(features)
        target = self._place(leaf) / f"{first:09d}-{last:09d}.npy"
        unfinished = target.with_suffix(".new").name
        with self._explained(), drafted(target, unfinished, on_disk=True) as draft, draft.open("wb") as file:
            np.save(file, features, allow_pickle=False)
        self._ends[leaf] = last

    def features(self, leaf: str, items: int) -> Features:
        """The features of the first items, as many as given."""
        assert self.have(leaf) >= items
        parts = [_loaded(path) for first, _, path in self._parts(leaf) if first < items]
        joined: Features = np.concatenate(parts)[:items]
        return joined

    def _place(self, leaf: str) -> Path:
        return self.path / "features" / leaf

    def _parts(self, leaf: str) -> list[tuple[int, int, Path]]:
        parts = []
        for path in sorted(self._place(leaf).glob("*.npy")):
            first, _, last = path.stem.partition("-")
            parts.append((int(first), int(last), path))
        return parts

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            what = "not enough space for features" if full else opening.why(error)
            step = "make room" if full else "fix that"
            raise RunFolderError(
                f"{self.path} can't be written: {what}",
                hint=f"all features so far are safe; {step}, then {resume_command(self.path)}",
            ) from None


def resume_command(path: Path) -> str:
    """The command that resumes a search."""
    return f"cotenant search --resume {shlex.quote(str(path))}"


def _loaded(path: Path) -> Features:
    with opening.open_file(path, most=opening.TABLE_BYTES, follow=False) as file:
        features: Features = np.load(file, allow_pickle=False)
    return features
