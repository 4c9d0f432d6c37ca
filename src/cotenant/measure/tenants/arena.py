"""Memory shared by a tenant and the runner: request records go there, so that nothing is sent while timing.

Anonymous memory (memfd) is inherited by file descriptor: a killed process leaves nothing behind.
"""

import fcntl
import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np

from cotenant.tenancy.records import Int64s

Cells = memoryview
"""A view of 64-bit integers."""

FIXED_COLUMNS = ("intended", "started", "first", "done", "device", "ok")
ANSWER_COLUMNS = ("tokens_in", "tokens_out", "tokens_reasoning", "kind")
"""For servers only: what they report about an answer, and the kind of a request's error."""


def shared_memory_fd(name: str) -> int:
    """A file descriptor of memory without a name in the file system; inherited only when passed explicitly."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        # If a tenant could truncate the memory, the runner's next access would crash.
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        return fd
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _shared_map(fd: int, size: int) -> mmap.mmap:
    if os.fstat(fd).st_size < size:
        os.ftruncate(fd, size)
    shared = mmap.mmap(fd, size)
    if hasattr(mmap, "MADV_DONTFORK"):
        # A workload may fork and return in both processes: the child must not write into its parent's records.
        shared.madvise(mmap.MADV_DONTFORK)
    return shared


class ArenaPart:
    """The part of a tenant's records that belongs to a window."""

    __slots__ = ("capacity", "device", "done", "first", "intended", "ok", "slot_ends", "started")

    def __init__(self, table: Int64s) -> None:
        self.capacity = table.shape[1]
        self.intended, self.started, self.first, self.done, self.device, self.ok = table[: len(FIXED_COLUMNS)]
        self.slot_ends: Int64s = table[len(FIXED_COLUMNS) :]
        """End of each stage slot of each request; for servers followed by `ANSWER_COLUMNS`."""


class Arena:
    """One tenant's records of a sequence of windows: a column per timestamp and stage slot, all int64."""

    def __init__(self, fd: int, *, capacity: int, slots: int) -> None:
        columns = len(FIXED_COLUMNS) + slots
        size = max(columns * capacity * 8, mmap.PAGESIZE)
        self._map = _shared_map(fd, size)
        table = np.frombuffer(self._map, dtype=np.int64, count=columns * capacity)
        self._table: Int64s | None = table.reshape(columns, capacity)

    def part(self, first: int, capacity: int) -> ArenaPart:
        """The rows of a window (drop or copy them before `close`)."""
        assert self._table is not None
        return ArenaPart(self._table[:, first : first + capacity])

    def close(self) -> None:
        """Release the mapping."""
        self._table = None
        # When a workload exits by SystemExit, its traceback still holds views; the mapping then goes with them.
        with suppress(BufferError):
            self._map.close()


class Page:
    """One window on the board: which seats have served everything due, which have left, and what is recorded."""

    __slots__ = ("finished", "left", "recorded", "stop")

    def __init__(self, finished: Cells, left: Cells, recorded: Cells, stop: Cells) -> None:
        self.finished, self.left, self.recorded, self.stop = finished, left, recorded, stop

    def all_finished(self, seats: int) -> bool:
        """True if each of the first ``seats`` seats has served everything due."""
        return all(self.finished[:seats])

    def all_left(self, seats: int) -> bool:
        """True if each of the first ``seats`` seats has stopped serving."""
        return all(self.left[:seats])


class Board:
    """State all tenants of a sequence share: the current window, when each starts, and whether to stop.

    Its pages also count the requests each seat has recorded, so that the records of a tenant killed
    midway can still be read.
    """

    SEATS = 256
    WINDOWS = 64

    def __init__(self, fd: int) -> None:
        per_window = 3 * self.SEATS
        self._map = _shared_map(fd, (3 + self.WINDOWS * (1 + per_window)) * 8)
        self._cells = memoryview(self._map).cast("q")
        self.stop, self.halt, self.turn = self._cells[0:1], self._cells[1:2], self._cells[2:3]
        """Stop now; start no further window; the window started last."""
        self.start = self._cells[3 : 3 + self.WINDOWS]
        """When each window starts; 0 if not known yet."""
        pages = self._cells[3 + self.WINDOWS :]
        columns = [pages[at : at + self.SEATS] for at in range(0, self.WINDOWS * per_window, self.SEATS)]
        self._pages = [
            Page(columns[at], columns[at + 1], columns[at + 2], self.stop) for at in range(0, len(columns), 3)
        ]

    def page(self, window: int) -> Page:
        """The page of a window."""
        return self._pages[window]

    def clear(self) -> None:
        """Reset it before a sequence."""
        self._map[:] = bytes(len(self._map))

    def close(self) -> None:
        """Release the mapping."""
        for page in self._pages:
            for view in (page.finished, page.left, page.recorded):
                view.release()
        for view in (self.stop, self.halt, self.turn, self.start, self._cells):
            view.release()
        with suppress(BufferError):  # the underlying slice goes with its last reference
            self._map.close()


@contextmanager
def opened(fd: int, *, capacity: int, slots: int) -> Iterator[Arena]:
    """An arena for the duration of a block of code."""
    arena = Arena(fd, capacity=capacity, slots=slots)
    try:
        yield arena
    finally:
        arena.close()
