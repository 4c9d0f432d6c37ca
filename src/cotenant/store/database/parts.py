"""Large files in parts: a reader holds text for every line, so ten million lines at once would not fit into memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cotenant.errors import DataError
from cotenant.store import imports as importing
from cotenant.store.imports import Imported, Skipped
from cotenant.store.imports.problems import HINT, SHOWN, sentence

LARGE_BYTES = 48 << 20
WITH_HEADER = ("longhorn", "nvidia-smi")
"""Formats whose lines stand alone but for a header in the first one."""


@dataclass(slots=True)
class Bad:
    """Lines that can't be used, over all parts."""

    found: dict[str, Skipped]

    def add(self, skipped: tuple[Skipped, ...], before: int) -> None:
        """Of a part that has ``before`` lines of data before it."""
        for one in skipped:
            there = self.found.get(one.what, Skipped(one.what, 0, ()))
            lines = (*there.lines, *(line + before for line in one.lines))[:SHOWN]
            self.found[one.what] = Skipped(one.what, there.count + one.count, lines)

    def refuse(self, path: Path) -> None:
        """Raise DataError with every kind, place and count, if there is any."""
        if self.found:
            total = sum(one.count for one in self.found.values())
            kinds = "; ".join(map(sentence, self.found.values()))
            raise DataError(
                f"{path} has {total:,} {'line' if total == 1 else 'lines'} that can't be used, so nothing was "
                f"imported: {kinds}.",
                hint=HINT,
            )


def read(path: Path, room: Path, *, skip_bad: bool) -> Iterator[Imported]:
    """The file as one, or in parts if it is large; what was left out is told by the last part.

    Raises:
        DataError: The file, or some of its lines, can't be used; what, where, how many.
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
            told = (*bad.found.values(), *(Skipped(one.what, one.count, ()) for one in cut))
        else:
            told = ()
        yield Imported(path, found.format, found.clock, found.runs, found.series, found.kernels, found.facts, told)


def _pieces(path: Path, room: Path) -> Iterator[tuple[Path, int, bool]]:
    """Files under the same name with the header and some of the lines; how many came before; whether it is the last."""
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
