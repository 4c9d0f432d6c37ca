"""Clients of requests in progress: one that leaves cancels its request, one that sends too slowly is refused.

One timer serves all of them. A timer and a task for each request would cost more than most requests do.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

Receive = Callable[[], Awaitable[dict[str, Any]]]

LOOK_S = 0.02
"""Time between two looks. A client is watched from the first look that finds its request at least that old."""


class Visit:
    """One request in progress; its task is cancelled if the client has left or is late."""

    __slots__ = ("gone", "late", "leaving", "patience_s", "receive", "since", "task")

    def __init__(self, task: "asyncio.Task[Any] | None", receive: Receive, since: float) -> None:
        self.task = task
        self.receive = receive
        self.since = since
        self.patience_s: float | None = None
        """Time limit of a client that still sends; None once it has."""
        self.gone = self.late = False
        self.leaving: asyncio.Task[None] | None = None

    def forgive(self) -> bool:
        """Undo our own cancellation, so that the task goes on; False if someone else cancelled it."""
        if (self.gone or self.late) and self.task is not None:
            self.task.uncancel()
            return True
        return False

    def watch(self) -> None:
        """Watch from now on whether the client leaves."""
        self.leaving = asyncio.get_running_loop().create_task(_left(self.receive))
        self.leaving.add_done_callback(self._left)

    def _left(self, leaving: "asyncio.Task[None]") -> None:
        if not leaving.cancelled() and self.task is not None:
            self.gone = True
            self.task.cancel()


class Visits:
    """All requests in progress."""

    def __init__(self) -> None:
        self._new: dict[int, Visit] = {}
        """Those not watched yet."""
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, receive: Receive, patience_s: float | None = None) -> Visit:
        """The current task handles a request; ``patience_s``: its client has this long to send it."""
        loop = asyncio.get_running_loop()
        visit = Visit(asyncio.current_task(), receive, loop.time())
        visit.patience_s = patience_s
        self._new[id(visit)] = visit
        if self._timer is None:
            self._timer = loop.call_later(LOOK_S, self._look)
        return visit

    def end(self, visit: Visit) -> None:
        """The request was answered or given up."""
        self._new.pop(id(visit), None)
        if visit.leaving is not None:
            visit.leaving.cancel()

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for key, visit in tuple(self._new.items()):
            age = now - visit.since
            if visit.patience_s is not None:
                if age > visit.patience_s and visit.task is not None:
                    del self._new[key]
                    visit.late = True
                    visit.task.cancel()
            elif age >= LOOK_S:
                del self._new[key]
                visit.watch()
        self._timer = loop.call_later(LOOK_S, self._look) if self._new else None


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
