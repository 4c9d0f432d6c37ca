"""Simulate a mix under arrivals: one queue per tenant, served at a speed that depends on active neighbours.

The speed depends on which tenants are active at each moment, so tails reflect the moments when all are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from cotenant.planning.solver.problem import Floats

Speeds = Callable[[int], Sequence[float]]
"""By bit mask of active tenants: each tenant's speed relative to running alone."""


@dataclass(frozen=True, slots=True)
class Queue:
    """Requests of one tenant. Those that wait are served together, as many as the largest batch holds."""

    due_s: Floats
    """Arrivals, sorted."""
    work_s: Floats
    """Times alone of single requests, one per batch in turn; as many as there are requests."""
    after_pause_s: Floats | None = None
    """The same for batches that start while nothing ran before; None if they take as long."""
    growth: Sequence[float] = (1.0,)
    """By number of requests in a batch: its time over a single request's."""


def latencies(queues: Sequence[Queue], speeds: Speeds) -> list[Floats]:
    """Seconds from arrival to completion of every request of every tenant.

    Args:
        queues: By tenant.
        speeds: Speeds by active tenants.
    """
    lines = [_Line(queue) for queue in queues]
    known: dict[int, Sequence[float]] = {}
    now, active = 0.0, 0
    while True:
        ahead = min((line.ahead for line in lines), default=inf)
        speed = known.get(active)
        if speed is None:
            speed = known[active] = speeds(active)
        busy = [place for place in range(len(lines)) if active >> place & 1]
        first = min(busy, key=lambda place: lines[place].left / speed[place], default=-1)
        ends = now + lines[first].left / speed[first] if busy else inf
        if ahead == inf and ends == inf:
            break
        until = min(ends, ahead)
        for place in busy:
            lines[place].left = max(lines[place].left - (until - now) * speed[place], 0.0)
        now = until
        if ahead <= ends:
            for place, line in enumerate(lines):
                if line.ahead <= now and line.comes(now):
                    active |= 1 << place
        elif not lines[first].ends(now):
            active &= ~(1 << first)
    return [np.array(line.done) - queue.due_s for line, queue in zip(lines, queues, strict=True)]


class _Line:
    """One tenant's queue: arrivals, the batch in service, and completions."""

    __slots__ = ("after_pause", "ahead", "came", "done", "due", "growth", "left", "size", "work")

    def __init__(self, queue: Queue) -> None:
        self.due, self.work, self.growth = queue.due_s.tolist(), queue.work_s.tolist(), queue.growth
        self.after_pause = self.work if queue.after_pause_s is None else queue.after_pause_s.tolist()
        self.came, self.left, self.size = 0, 0.0, 0
        self.done: list[float] = []
        self.ahead = self.due[0] if self.due else inf

    def comes(self, now: float) -> bool:
        """Admit requests due by now; True if it was idle and starts serving."""
        idle = len(self.done) == self.came
        while self.came < len(self.due) and self.due[self.came] <= now:
            self.came += 1
        self.ahead = self.due[self.came] if self.came < len(self.due) else inf
        if idle:
            self._start(self.after_pause)
        return idle

    def ends(self, now: float) -> bool:
        """Complete the batch in service; True if another one starts."""
        self.done += [now] * self.size
        more = len(self.done) < self.came
        if more:
            self._start(self.work)
        return more

    def _start(self, work: Sequence[float]) -> None:
        self.size = min(self.came - len(self.done), len(self.growth))
        self.left = work[len(self.done)] * self.growth[self.size - 1]
