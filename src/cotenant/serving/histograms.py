"""Histograms as Prometheus counts them."""

from bisect import bisect_left
from collections.abc import Iterator


class Histogram:
    """Counts of values by bucket, and their sum. A value equal to an edge belongs below it."""

    __slots__ = ("_counts", "_edges", "count", "total")

    def __init__(self, edges: tuple[float, ...]) -> None:
        self._edges = edges
        self._counts = [0] * (len(edges) + 1)
        self.count = 0
        self.total = 0.0

    def add(self, value: float, count: int = 1) -> None:
        """Count a value."""
        self._counts[bisect_left(self._edges, value)] += count
        self.count += count
        self.total += value * count

    def buckets(self, most: float | None = None) -> Iterator[tuple[float, int]]:
        """Each edge with the number of values up to it, infinity last; edges above ``most`` are left out."""
        below = 0
        for edge, count in zip(self._edges, self._counts, strict=False):
            below += count
            if most is None or edge <= most:
                yield edge, below
        yield float("inf"), self.count
