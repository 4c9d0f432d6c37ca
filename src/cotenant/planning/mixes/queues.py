"""Requests of a mix under arrivals: a queue for each tenant, served one at a time, faster or slower as neighbours work.

How fast depends on who is active at the moment, so that a tail holds the moments in which everybody is.
"""

from collections.abc import Callable, Sequence
from math import inf

import numpy as np

from cotenant.planning.solver.problem import Floats

Speeds = Callable[[int], Sequence[float]]
"""By who is active (bit n: tenant n): for every tenant of the mix, its speed over alone."""


def latencies(arrivals_s: Sequence[Floats], work_s: Sequence[Floats], speeds: Speeds) -> list[Floats]:
    """Seconds from arrival to end of every request of every tenant.

    Args:
        arrivals_s: By tenant, in order.
        work_s: By tenant and request: how long it takes alone.
        speeds: What neighbours leave of a tenant's speed.
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
    """One tenant's requests: those that came, the one that is served, and when others were done."""

    __slots__ = ("ahead", "came", "done", "due", "left", "work")

    def __init__(self, due: list[float], work: list[float]) -> None:
        self.due, self.work = due, work
        self.came, self.left = 0, 0.0
        self.done: list[float] = []
        self.ahead = due[0] if due else inf

    def comes(self, now: float) -> bool:
        """Take what is due by now; True: it was idle and begins."""
        idle = len(self.done) == self.came
        while self.came < len(self.due) and self.due[self.came] <= now:
            self.came += 1
        self.ahead = self.due[self.came] if self.came < len(self.due) else inf
        if idle:
            self.left = self.work[len(self.done)]
        return idle

    def ends(self, now: float) -> bool:
        """The request that is served is done; True: another one begins."""
        self.done.append(now)
        more = len(self.done) < self.came
        if more:
            self.left = self.work[len(self.done)]
        return more
