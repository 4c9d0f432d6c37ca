"""Memory that a tenant and the runner share: request records go there, so that nobody sends or receives while timing.

Anonymous memory (memfd) is inherited by file descriptor: nothing is left behind when a process is killed.
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
"""Of 64-bit integers."""

FIXED_COLUMNS = ("intended", "started", "first", "done", "device", "ok")
ANSWER_COLUMNS = ("tokens_in", "tokens_out", "tokens_reasoning", "kind")
"""Of servers only: what they say of an answer, and which kind of error a request ended with."""


def shared_memory_fd(name: str) -> int:
    """A file descriptor of memory without a name in the file system; inheritable only when passed on."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        # Memory that a tenant had cut short would end the runner at its next look at it.
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
    """The part of a tenant's records that belongs to one window."""

    __slots__ = ("capacity", "device", "done", "first", "intended", "ok", "slot_ends", "started")

    def __init__(self, table: Int64s) -> None:
        self.capacity = table.shape[1]
        self.intended, self.started, self.first, self.done, self.device, self.ok = table[: len(FIXED_COLUMNS)]
        self.slot_ends: Int64s = table[len(FIXED_COLUMNS) :]
        """When each stage slot of each request ended; of servers, the columns of `ANSWER_COLUMNS` come after."""


class Arena:
    """One tenant's records of a sequence of windows: a column per timestamp and per stage slot, all int64."""

    def __init__(self, fd: int, *, capacity: int, slots: int) -> None:
        columns = len(FIXED_COLUMNS) + slots
        size = max(columns * capacity * 8, mmap.PAGESIZE)
        self._map = _shared_map(fd, size)
        table = np.frombuffer(self._map, dtype=np.int64, count=columns * capacity)
        self._table: Int64s | None = table.reshape(columns, capacity)

    def part(self, first: int, capacity: int) -> ArenaPart:
        """The rows of one window (they must be gone or copied before `close`)."""
        assert self._table is not None
        return ArenaPart(self._table[:, first : first + capacity])

    def close(self) -> None:
        """Give the mapping back."""
        self._table = None
        # When a workload leaves by SystemExit, its traceback still holds views; the mapping then goes with them.
        with suppress(BufferError):
            self._map.close()


class Page:
    """One window on the board: who has served all that was due in it, who has left it, and what is recorded."""

    __slots__ = ("finished", "left", "recorded", "stop")

    def __init__(self, finished: Cells, left: Cells, recorded: Cells, stop: Cells) -> None:
        self.finished, self.left, self.recorded, self.stop = finished, left, recorded, stop

    def all_finished(self, seats: int) -> bool:
        """Every one of the first ``seats`` seats has served all that was due."""
        return all(self.finished[:seats])

    def all_left(self, seats: int) -> bool:
        """Every one of the first ``seats`` seats serves no longer."""
        return all(self.left[:seats])


class Board:
    """What all tenants of a sequence can see: whose turn it is, when each window starts, and whether to stop.

    Its pages also hold how many requests each seat has recorded, so that the records of a tenant that was killed
    half way can still be read.
    """

    SEATS = 256
    WINDOWS = 64

    def __init__(self, fd: int) -> None:
        per_window = 3 * self.SEATS
        self._map = _shared_map(fd, (3 + self.WINDOWS * (1 + per_window)) * 8)
        self._cells = memoryview(self._map).cast("q")
        self.stop, self.halt, self.turn = self._cells[0:1], self._cells[1:2], self._cells[2:3]
        """Stop now; begin no further window; the window that was begun last."""
        self.start = self._cells[3 : 3 + self.WINDOWS]
        """When each window starts; 0: not known yet."""
        pages = self._cells[3 + self.WINDOWS :]
        columns = [pages[at : at + self.SEATS] for at in range(0, self.WINDOWS * per_window, self.SEATS)]
        self._pages = [
            Page(columns[at], columns[at + 1], columns[at + 2], self.stop) for at in range(0, len(columns), 3)
        ]

    def page(self, window: int) -> Page:
        """What belongs to one window."""
        return self._pages[window]

    def clear(self) -> None:
        """Before a sequence: nothing has begun, nothing is recorded."""
        self._map[:] = bytes(len(self._map))

    def close(self) -> None:
        """Give the mapping back."""
        for page in self._pages:
            for view in (page.finished, page.left, page.recorded):
                view.release()
        for view in (self.stop, self.halt, self.turn, self.start, self._cells):
            view.release()
        with suppress(BufferError):  # the slice that the pages were cut from goes with its last reference
            self._map.close()


@contextmanager
def opened(fd: int, *, capacity: int, slots: int) -> Iterator[Arena]:
    """An arena for the duration of a block of code."""
    arena = Arena(fd, capacity=capacity, slots=slots)
    try:
        yield arena
    finally:
        arena.close()
