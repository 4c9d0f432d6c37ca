"""Batches for the pipeline: loaded on demand, or ahead by threads, with the time spent loading."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

Batch = Mapping[str, Any]
Load = Callable[[int], Batch]
AHEAD = 2
"""Batches each thread may be ahead."""


@dataclass(slots=True)
class LoaderTimes:
    """Totals since the start: time spent loading, and time spent waiting for it."""

    busy_ns: int = 0
    waited_ns: int = 0

    def overlap(self) -> float | None:
        """Share of loading that overlapped with other work; None if nothing was loaded ahead."""
        return max(0.0, 1 - self.waited_ns / self.busy_ns) if self.busy_ns else None


class Ahead:
    """Loads the batches of one request in order, several at a time and some ahead."""

    def __init__(self, load: Load, batches: int, workers: int, times: LoaderTimes) -> None:
        self._load, self._left, self._times = load, iter(range(batches)), times
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="loader")
        self._coming: deque[Future[tuple[Batch, int]]] = deque()
        for _ in range(min(batches, AHEAD * workers)):
            self._order()

    def next(self) -> Batch:
        """The next batch, as soon as it is loaded."""
        begin = time.perf_counter_ns()
        batch, busy_ns = self._coming.popleft().result()
        self._times.waited_ns += time.perf_counter_ns() - begin
        self._times.busy_ns += busy_ns
        self._order()
        return batch

    def close(self) -> None:
        """End the threads and discard what they still load."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _order(self) -> None:
        number = next(self._left, None)
        if number is not None:
            self._coming.append(self._pool.submit(self._timed, number))

    def _timed(self, number: int) -> tuple[Batch, int]:
        begin = time.perf_counter_ns()
        batch = self._load(number)
        return batch, time.perf_counter_ns() - begin


class Inline:
    """Loads each batch on demand."""

    def __init__(self, load: Load, batches: int) -> None:
        self._load, self._left = load, iter(range(batches))

    def next(self) -> Batch:
        """The next batch."""
        return self._load(next(self._left))

    def close(self) -> None:
        """A no-op."""
