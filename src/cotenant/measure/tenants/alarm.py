"""Wakes an event loop at a point in time through a kernel timer, since the loop's own resolution is a millisecond."""

import asyncio
import contextlib
import ctypes
import os
import sys
from collections.abc import Callable

_CLOCK_MONOTONIC, _ABSOLUTE = 1, 1
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC


class _Spec(ctypes.Structure):
    _fields_ = (("interval", ctypes.c_long * 2), ("value", ctypes.c_long * 2))


class Alarm:
    """Calls back as soon as the monotonic clock reaches the time last set."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop, self._ring = loop, ring
        self._later: asyncio.TimerHandle | None = None
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        self._fd = self._libc.timerfd_create(_CLOCK_MONOTONIC, _NONBLOCK_CLOEXEC) if self._libc else -1
        if self._fd >= 0:
            loop.add_reader(self._fd, self._rang)

    def at(self, ns: int) -> None:
        """Set the alarm, replacing the previous one; a past time rings at once."""
        if self._fd >= 0 and self._libc is not None:
            spec = _Spec(value=(ctypes.c_long * 2)(*divmod(max(ns, 1), 1_000_000_000)))
            self._libc.timerfd_settime(self._fd, _ABSOLUTE, ctypes.byref(spec), None)
            return
        if self._later is not None:
            self._later.cancel()
        self._later = self._loop.call_at(ns / 1e9, self._ring)

    def close(self) -> None:
        """Cancel it."""
        if self._later is not None:
            self._later.cancel()
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _rang(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._fd, 8)
            self._ring()
