"""Read large files in parts: a reader holds text for every line, and ten million lines would not fit into memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cotenant.errors import DataError
from cotenant.store import imports as importing
from cotenant.store.imports import Imported, Skipped
from cotenant.store.imports.result import HINT, SHOWN, sentence

LARGE_BYTES = 48 << 20
WITH_HEADER = ("longhorn", "nvidia-smi")
"""Formats with independent lines after a header."""


@dataclass(slots=True)
class Bad:
    """Unusable lines over all parts."""

    found: dict[str, Skipped]

    def add(self, skipped: tuple[Skipped, ...], before: int) -> None:
        """Add those of a part that starts after ``before`` lines of data."""
        for one in skipped:
            there = self.found.get(one.what, Skipped(one.what, 0, ()))
            lines = (*there.lines, *(line + before for line in one.lines))[:SHOWN]
            self.found[one.what] = Skipped(one.what, there.count + one.count, lines)

    def refuse(self, path: Path) -> None:
        """Raise DataError with every kind, place and count, if there are any."""
        if self.found:
            total = sum(one.count for one in self.found.values())
            kinds = "; ".join(map(sentence, self.found.values()))
            raise DataError(
                f"{path} has {total:,} {'line' if total == 1 else 'lines'} that can't be used, so nothing was "
                f"imported: {kinds}.",
                hint=HINT,
            )


def read(path: Path, room: Path, *, skip_bad: bool) -> Iterator[Imported]:
    """The file at once, or in parts if it is large; the last part reports what was left out.

    Raises:
        DataError: The file, or some of its lines, can't be used; states what, where and how many.
    """
    kind = importing.detect(path)
    if kind not in WITH_HEADER or path.stat().st_size <= LARGE_BYTES:
        yield importing.read(path, format=kind, skip_bad=skip_bad)
        return
    bad = Bad({})
    for piece, before, last in _pieces(path, room):
        try:
            found = importing.read(piece, format=kind, skip_bad=True)
        except DataError as error:
            where = f" (in what follows line {before + 1:,})" if before else ""
            raise DataError(error.message.replace(str(piece), str(path)) + where, hint=error.hint) from None
        finally:
            piece.unlink()
        cut = tuple(one for one in found.skipped if last and "cut short" in one.what)
        bad.add(tuple(one for one in found.skipped if one not in cut), before)
        if last:
            if not skip_bad:
                bad.refuse(path)
            left_out = (*bad.found.values(), *(Skipped(one.what, one.count, ()) for one in cut))
        else:
            left_out = ()
        yield Imported(path, found.format, found.clock, found.runs, found.series, found.kernels, found.facts, left_out)


def _pieces(path: Path, room: Path) -> Iterator[tuple[Path, int, bool]]:
    """Files of the same name with the header and some of the lines; the lines before; whether it is the last."""
    size = path.stat().st_size
    room.mkdir(parents=True, exist_ok=True)
    with path.open("rb") as source:
        header = source.readline()
        before = 0
        while source.tell() < size:
            lines = source.read(LARGE_BYTES) + source.readline()
            piece = room / path.name
            piece.write_bytes(header + lines)
            count = lines.count(b"\n")
            last = source.tell() >= size
            del lines
            yield piece, before, last
            before += count
