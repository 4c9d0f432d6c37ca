"""A cache of weights: pieces shared by several candidates are kept once, and the least used are evicted."""

from collections import OrderedDict
from collections.abc import Callable, Sequence

from cotenant.ranking.chain import Weights
from cotenant.ranking.reading import Read, piece_bytes


class Shelf:
    """Keeps pieces of weights in memory up to a limit; evicted ones are read again with their candidate."""

    def __init__(self, read: Callable[[int], Read], limit_bytes: int) -> None:
        self._read = read
        self._pieces: OrderedDict[str, Weights] = OrderedDict()
        self._sizes: dict[int, int] = {}
        self.limit_bytes = limit_bytes
        self.held_bytes = 0

    def read(self, candidate: int) -> Read:
        """Read a candidate, and keep as much of it as there is room for."""
        self._shrink(max(0, self.limit_bytes - self._sizes.get(candidate, 0)))
        found = self._read(candidate)
        self._sizes[candidate] = found.bytes
        for digest, piece in found.pieces.items():
            if digest not in self._pieces:
                self._pieces[digest] = piece
                self.held_bytes += piece_bytes(piece)
        self._shrink(self.limit_bytes)
        return found

    def take(self, digests: Sequence[str], candidate: int) -> list[Weights]:
        """Pieces of this candidate, which is read at most once for all of them."""
        if all(digest in self._pieces for digest in digests):
            for digest in digests:
                self._pieces.move_to_end(digest)
            return [self._pieces[digest] for digest in digests]
        # From what was read, not from the shelf, which may have no room for it.
        found = self.read(candidate).pieces
        return [found[digest] for digest in digests]

    def _shrink(self, limit_bytes: int) -> None:
        while self._pieces and self.held_bytes > limit_bytes:
            _, piece = self._pieces.popitem(last=False)
            self.held_bytes -= piece_bytes(piece)
