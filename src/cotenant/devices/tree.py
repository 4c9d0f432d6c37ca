"""The /proc and /sys tree below a root, so that readers also work on a copy from another machine."""

import os
import weakref
from dataclasses import dataclass
from pathlib import Path

_ENOUGH_BYTES = 1 << 16
"""Larger than any file sensors read, except on machines with very many cores, where reading continues."""


@dataclass(frozen=True, slots=True)
class FileTree:
    """Kernel files below a root. Missing or unreadable files are None."""

    root: Path = Path("/")

    def path(self, inner: str) -> Path:
        """Path of a file, given its usual absolute path."""
        return self.root / inner.lstrip("/")

    def text(self, inner: str) -> str | None:
        """The stripped content of a file."""
        try:
            return self.path(inner).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None

    def number(self, inner: str) -> float | None:
        """The content of a file as a number."""
        text = self.text(inner)
        try:
            return None if text is None else float(text)
        except ValueError:
            return None

    def held(self, inner: str) -> "HeldOpen | None":
        """A file to read again and again."""
        try:
            return HeldOpen(self.path(inner))
        except OSError:
            return None

    def glob(self, pattern: str) -> tuple[str, ...]:
        """Usual absolute paths of all matches, sorted."""
        return tuple(sorted(f"/{path.relative_to(self.root)}" for path in self.root.glob(pattern.lstrip("/"))))


class HeldOpen:
    """A file kept open and reread from the start: a system call per reading."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._fd)

    def read(self) -> bytes:
        """The content now."""
        data = os.pread(self._fd, _ENOUGH_BYTES, 0)
        if len(data) < _ENOUGH_BYTES:
            return data
        parts = [data]
        while part := os.pread(self._fd, _ENOUGH_BYTES, sum(map(len, parts))):
            parts.append(part)
        return b"".join(parts)
