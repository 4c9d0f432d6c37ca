"""Wakes an event loop at a point in time through a kernel timer, since the loop's own resolution is a millisecond."""

import asyncio
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
        self._set_ns = 0
        """The time it is set to; 0 once it has rung."""
        self._spec = _Spec()
        self._later: asyncio.TimerHandle | None = None
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        self._fd = self._libc.timerfd_create(_CLOCK_MONOTONIC, _NONBLOCK_CLOEXEC) if self._libc else -1
        if self._fd >= 0:
            loop.add_reader(self._fd, self._rang)

    def at(self, ns: int) -> None:
        """Set the alarm, replacing the previous one; a past time rings at once."""
        ns = max(ns, 1)
        if ns == self._set_ns:
            return
        self._set_ns = ns
        if self._fd >= 0 and self._libc is not None:
            self._spec.value[:] = divmod(ns, 1_000_000_000)
            self._libc.timerfd_settime(self._fd, _ABSOLUTE, ctypes.byref(self._spec), None)
            return
        if self._later is not None:
            self._later.cancel()
        self._later = self._loop.call_at(ns / 1e9, self._rang)

    def close(self) -> None:
        """Cancel it."""
        if self._later is not None:
            self._later.cancel()
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _rang(self) -> None:
        if self._fd >= 0:
            try:
                os.read(self._fd, 8)
            except BlockingIOError:
                return  # set anew since the loop saw it
        self._set_ns = 0
        self._ring()
