"""Simulate a mix under arrivals: one queue per tenant, served at a speed that depends on active neighbours.

The speed depends on which tenants are active at each moment, so tails reflect the moments when all are.
"""

from collections.abc import Callable, Sequence
from math import inf

import numpy as np

from cotenant.planning.solver.problem import Floats

Speeds = Callable[[int], Sequence[float]]
"""By bit mask of active tenants: each tenant's speed relative to running alone."""


def latencies(arrivals_s: Sequence[Floats], work_s: Sequence[Floats], speeds: Speeds) -> list[Floats]:
    """Seconds from arrival to completion of every request of every tenant.

    Args:
        arrivals_s: By tenant, sorted.
        work_s: By tenant and request: service time alone.
        speeds: Speeds by active tenants.
    """
    lines = [_Line(due.tolist(), work.tolist()) for due, work in zip(arrivals_s, work_s, strict=True)]
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
    return [np.array(line.done) - due for line, due in zip(lines, arrivals_s, strict=True)]


class _Line:
    """One tenant's queue: arrivals, the request in service, and completions."""

    __slots__ = ("ahead", "came", "done", "due", "left", "work")

    def __init__(self, due: list[float], work: list[float]) -> None:
        self.due, self.work = due, work
        self.came, self.left = 0, 0.0
        self.done: list[float] = []
        self.ahead = due[0] if due else inf

    def comes(self, now: float) -> bool:
        """Admit requests due by now; True if it was idle and starts serving."""
        idle = len(self.done) == self.came
        while self.came < len(self.due) and self.due[self.came] <= now:
            self.came += 1
        self.ahead = self.due[self.came] if self.came < len(self.due) else inf
        if idle:
            self.left = self.work[len(self.done)]
        return idle

    def ends(self, now: float) -> bool:
        """Complete the request in service; True if another one starts."""
        self.done.append(now)
        more = len(self.done) < self.came
        if more:
            self.left = self.work[len(self.done)]
        return more
