"""Shared memory between two processes: one side allocates and writes; the other reads and releases."""

import contextlib
import mmap
import os
from collections.abc import Iterable

PAGE = 4096
INLINE = 4096
"""Smaller data is sent in the message itself."""


class Arena:
    """Anonymous memory behind a file descriptor; freed with the last process that holds it."""

    def __init__(self, fd: int, size: int) -> None:
        self.fd = fd
        self.size = size
        self._memory = mmap.mmap(fd, size)
        self._free: list[tuple[int, int]] = [(0, size)]
        self._taken: dict[int, int] = {}

    @classmethod
    def create(cls, size: int) -> "Arena":
        """Create an arena; pages are only used once written."""
        fd = os.memfd_create("cotenant", os.MFD_CLOEXEC)
        os.ftruncate(fd, size)
        return cls(fd, size)

    def put(self, parts: Iterable["bytes | bytearray | memoryview"], size: int) -> int | None:
        """Write the parts consecutively; returns their location, or None if full."""
        at = self._allocate(max(PAGE, -(-size // PAGE) * PAGE))
        if at is None:
            return None
        place = at
        for part in parts:
            self._memory[place : place + len(part)] = bytes(part) if isinstance(part, memoryview) else part
            place += len(part)
        return at

    def view(self, at: int, size: int) -> memoryview:
        """Data written by the other side; release it before closing the arena."""
        return memoryview(self._memory)[at : at + size]

    def release(self, at: int) -> None:
        """Reuse the space: the other side has read it."""
        size = self._taken.pop(at)
        self._free.append((at, size))
        self._free.sort()
        merged: list[tuple[int, int]] = []
        for start, length in self._free:
            if merged and merged[-1][0] + merged[-1][1] == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + length)
            else:
                merged.append((start, length))
        self._free = merged

    @property
    def used(self) -> int:
        """Bytes in use."""
        return sum(self._taken.values())

    def close(self) -> None:
        """Unmap the memory."""
        with contextlib.suppress(BufferError):  # a view still exists; the memory goes with the last one
            self._memory.close()
        os.close(self.fd)

    def _allocate(self, size: int) -> int | None:
        for place, (start, length) in enumerate(self._free):
            if length >= size:
                self._free[place] = (start + size, length - size)
                if length == size:
                    del self._free[place]
                self._taken[start] = size
                return start
        return None
