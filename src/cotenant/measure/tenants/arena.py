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

FIXED_COLUMNS = ("intended", "started", "first", "done", "device", "ok")


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


class Arena:
    """One tenant's records of one trial: a column per timestamp and per stage slot, all int64."""

    def __init__(self, fd: int, *, capacity: int, slots: int) -> None:
        columns = len(FIXED_COLUMNS) + slots
        size = max(columns * capacity * 8, mmap.PAGESIZE)
        self.capacity = capacity
        self._map = _shared_map(fd, size)
        table = np.frombuffer(self._map, dtype=np.int64, count=columns * capacity).reshape(columns, capacity)
        self.intended, self.started, self.first, self.done, self.device, self.ok = table[: len(FIXED_COLUMNS)]
        self.slot_ends: Int64s = table[len(FIXED_COLUMNS) :]
        """When each stage slot of each request ended."""

    def close(self) -> None:
        """Give the mapping back (arrays handed out must be gone or copied)."""
        for name in (*FIXED_COLUMNS, "slot_ends"):
            setattr(self, name, None)
        # When a workload leaves by SystemExit, its traceback still holds views; the mapping then goes with them.
        with suppress(BufferError):
            self._map.close()


class Board:
    """What all tenants of a trial can see: who has served all that was due in the window, and whether to stop.

    It also holds how many requests each seat has recorded, so that the records of a tenant that was killed
    half way can still be read.
    """

    SEATS = 256

    def __init__(self, fd: int) -> None:
        size = (2 * self.SEATS + 1) * 8
        self._map = _shared_map(fd, size)
        self._cells = memoryview(self._map).cast("q")
        self.finished = self._cells[: self.SEATS]
        self.recorded = self._cells[self.SEATS : 2 * self.SEATS]
        self.stop = self._cells[2 * self.SEATS :]

    def clear(self) -> None:
        """Before a trial: nobody has finished, nothing is recorded."""
        for index in range(len(self._cells)):
            self._cells[index] = 0

    def all_finished(self, seats: int) -> bool:
        """Every one of the first ``seats`` seats has served all that was due."""
        return all(self.finished[:seats])

    def close(self) -> None:
        """Give the mapping back."""
        for view in (self.finished, self.recorded, self.stop, self._cells):
            view.release()
        self._map.close()


@contextmanager
def opened(fd: int, *, capacity: int, slots: int) -> Iterator[Arena]:
    """An arena for the duration of a block of code."""
    arena = Arena(fd, capacity=capacity, slots=slots)
    try:
        yield arena
    finally:
        arena.close()
