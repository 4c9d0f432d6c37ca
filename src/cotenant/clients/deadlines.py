"""Ends requests that take too long, by one kernel timer for all of them.

A timer of the event loop for each request would be looked at in every step of the loop: an eighth of a client's work.
"""

import asyncio
import time
from typing import Any

from cotenant.clients.alarm import Alarm


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
