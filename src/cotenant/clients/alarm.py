"""Deadlines of requests, by a kernel timer: the event loop's own resolution is a millisecond."""

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable
from typing import Any

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


# Requests that take too long are ended by one kernel timer for all of them.


class Deadlines:
    """The answers that are waited for, and until when."""

    def __init__(self) -> None:
        self._until_ns: dict[asyncio.Future[Any], int] = {}
        self._alarm: Alarm | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._set = False
        self._rings_ns = 0
        """The time that the alarm is set to."""

    def watch(self, answer: asyncio.Future[Any], until_ns: int) -> None:
        """Fail it with a TimeoutError if it isn't done by then, unless it is forgotten before."""
        self._until_ns[answer] = until_ns
        loop = answer.get_loop()
        if self._loop is not loop:
            self.close()
            self._loop, self._alarm = loop, Alarm(loop, self._rang)
        if self._alarm is not None and (not self._set or until_ns < self._rings_ns):
            self._set, self._rings_ns = True, until_ns
            self._alarm.at(until_ns)  # later deadlines are looked at when it rings

    def forget(self, answer: asyncio.Future[Any]) -> None:
        """It is no longer waited for."""
        self._until_ns.pop(answer, None)

    def close(self) -> None:
        """Let go of the timer."""
        if self._alarm is not None:
            self._alarm.close()
        self._alarm, self._loop, self._set = None, None, False

    def _rang(self) -> None:
        now = time.monotonic_ns()
        for answer, until_ns in list(self._until_ns.items()):
            if until_ns <= now:
                del self._until_ns[answer]
                if not answer.done():
                    answer.set_exception(TimeoutError())
        self._set = bool(self._until_ns)
        if self._set and self._alarm is not None:
            self._rings_ns = min(self._until_ns.values())
            self._alarm.at(self._rings_ns)
