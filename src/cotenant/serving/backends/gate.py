"""Backends that don't fit on the device together: one is awake at a time, and they take turns."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

TURNS = 10.0
"""Minimum length of a turn while others wait, in multiples of the time of a change."""


class Sleeper(Protocol):
    """A backend that can sleep."""

    async def sleep(self) -> None:
        """Free the device's memory."""
        ...

    async def wake(self) -> None:
        """Wake it up."""
        ...


class Gate:
    """Admits requests to the backend that is awake. Call all methods from the loop's thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.awake: Sleeper | None = None
        self.change_s = 0.0
        """Duration of the last change."""
        self._clock = clock
        self._since = clock()
        self._inside = 0
        self._waiting: list[tuple[Sleeper, asyncio.Future[None]]] = []
        self._changing: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def through(self, backend: Sleeper) -> AsyncIterator[None]:
        """Wait for this backend's turn and hold it meanwhile."""
        if self._changing is not None or self.awake is not backend or self._over(backend):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((backend, turn))
            self._go_on()
            try:
                await turn
            except BaseException:
                if turn.done() and not turn.cancelled() and turn.exception() is None:
                    self._leave()
                raise
        else:
            self._inside += 1
        try:
            yield
        finally:
            self._leave()

    def _over(self, backend: Sleeper) -> bool:
        others = any(one is not backend and not turn.done() for one, turn in self._waiting)
        return others and self._clock() - self._since > TURNS * self.change_s

    def _leave(self) -> None:
        self._inside -= 1
        self._go_on()

    def _go_on(self) -> None:
        """Change over once nothing is in flight and another backend waits."""
        self._waiting = [(one, turn) for one, turn in self._waiting if not turn.done()]
        if self._inside == 0 and self._changing is None and self._waiting:
            self._changing = asyncio.get_running_loop().create_task(self._change(self._waiting[0][0]))

    async def _change(self, following: Sleeper) -> None:
        began, failure = self._clock(), None
        try:
            if self.awake is not following:
                if self.awake is not None:
                    await self.awake.sleep()
                self.awake = None
                await following.wake()
                self.awake = following
                self.change_s = self._clock() - began
        except Exception as error:  # noqa: BLE001 - passed to the requests waiting for this backend
            failure = error
        self._changing = None
        self._since = self._clock()
        waiting, self._waiting = self._waiting, []
        for one, turn in waiting:
            if one is not following:
                self._waiting.append((one, turn))
            elif turn.done():
                continue
            elif failure is not None:
                turn.set_exception(failure)
            else:
                self._inside += 1
                turn.set_result(None)
        self._go_on()
