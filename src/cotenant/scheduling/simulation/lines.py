"""Tenants that each have a worker of their own: a line per tenant, served in order of arrival.

This is what the scheduler does where tenants run side by side in processes of their own and none is shed: requests that
wait start together as soon as the worker is free, as many as the largest batch holds. Workers share the device, so the
speed of each depends on which of them are busy. Compiled, because tails need many requests.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cotenant.extras import compiled

Floats = npt.NDArray[np.float64]

REPLICATIONS = 20
FEWEST_REQUESTS, MOST_REQUESTS = 3000, 40_000
MEMORIES = 400
"""Requests of a replication by the time in which a queue forgets that it was empty, 1 / (1 - load)^2 requests."""
WARM_UP = 1 / 8
"""Part of a replication that is left out, because it begins with an empty queue."""
LEVEL = 0.91
"""Level of the interval that covers how far the requests of all replications may be off."""


@dataclass(frozen=True, slots=True)
class Line:
    """Requests of a tenant."""

    due_s: Floats
    """Arrivals, sorted."""
    work_s: Floats
    """Times alone of single requests, drawn in turn per batch, repeated from the start."""
    after_pause_s: Floats | None = None
    """The same for batches that start while nothing ran before; None if they take as long."""
    growth: Sequence[float] = (1.0,)
    """By number of requests in a batch: its time over a single request's."""


def latencies(lines: Sequence[Line], speeds: Floats | None = None) -> list[Floats]:
    """Seconds from arrival to completion of every request of every tenant.

    Args:
        lines: By tenant.
        speeds: By bit mask of busy tenants, then by tenant: speed relative to running alone; None: always 1.
    """
    count = len(lines)
    due, due_ends = _joined([line.due_s for line in lines])
    work, work_ends = _joined([line.work_s if line.work_s.size else np.ones(1) for line in lines])
    paused, paused_ends = _joined(
        [
            line.after_pause_s if line.after_pause_s is not None else line.work_s if line.work_s.size else np.ones(1)
            for line in lines
        ]
    )
    growth, growth_ends = _joined([np.asarray(line.growth, np.float64) for line in lines])
    done = np.empty_like(due)
    table = np.ones((1, count)) if speeds is None else np.ascontiguousarray(speeds, np.float64)
    _serve(due, due_ends, work, work_ends, paused, paused_ends, growth, growth_ends, table, done)
    return [ends_s - line.due_s for ends_s, line in zip(np.split(done, due_ends[:-1]), lines, strict=True)]


@dataclass(frozen=True, slots=True)
class Replications:
    """Latencies of independent replications of the same queue, in seconds, each without its beginning."""

    latencies_s: tuple[Floats, ...]

    def quantile(self, level: float) -> tuple[float, float, float]:
        """Lower end, estimate and upper end; the ends cover that only so many requests were simulated."""
        from scipy.special import stdtrit  # `scipy.stats` takes a third of a second to import

        if not self.latencies_s or not all(np.isfinite(latencies_s).all() for latencies_s in self.latencies_s):
            return np.inf, np.inf, np.inf
        every = np.concatenate(self.latencies_s)
        estimate, count = float(np.quantile(every, level)), len(self.latencies_s)
        if count < 2:
            return estimate, estimate, estimate
        # The spread of the estimates that each leave out a replication (jackknife); only tails matter to it.
        cut = float(np.quantile(every, max(1 - 3 * (1 - level), 0.0)))
        tails = [latencies_s[latencies_s > cut] for latencies_s in self.latencies_s]
        logs = []
        for number, latencies_s in enumerate(self.latencies_s):
            rest = np.sort(np.concatenate([tail for index, tail in enumerate(tails) if index != number]))
            above = (1 - level) * (every.size - latencies_s.size)  # this many are beyond the quantile
            logs.append(np.log(rest[max(rest.size - 1 - int(above), 0)] if rest.size else cut))
        error = np.sqrt((count - 1) / count * ((np.array(logs) - np.mean(logs)) ** 2).sum())
        half = float(stdtrit(count - 1, (1 + LEVEL) / 2) * error)
        return estimate * float(np.exp(-half)), estimate, estimate * float(np.exp(half))

    def within(self, limit_s: float) -> float:
        """Share of the requests that take at most this long."""
        return float(np.mean([(times <= limit_s).mean() for times in self.latencies_s])) if self.latencies_s else 0.0


NEVER = Replications(())
"""A queue that grows without end."""


def requests_at(load: float) -> int:
    """Requests of a replication: the busier the server, the longer its queue remembers."""
    return int(np.clip(MEMORIES / max(1 - load, 1e-3) ** 2, FEWEST_REQUESTS, MOST_REQUESTS))


def tail_of(
    due_s: Callable[[int], Floats],
    work_s: Callable[[int], Floats],
    growth: Sequence[float] = (1.0,),
    *,
    seed: int = 1,
    replications: int = REPLICATIONS,
) -> Replications:
    """Replications of a tenant's queue.

    Args:
        due_s: Arrivals by seed.
        work_s: By seed: times alone of single requests, drawn in turn per batch.
        growth: By number of requests in a batch: its time over a single request's.
        seed: Of the first replication.
        replications: How many.
    """
    replicated = []
    for number in range(seed, seed + replications):
        due = due_s(number)
        if due.size:
            (times,) = latencies([Line(due, work_s(number), growth=growth)])
            replicated.append(times[int(times.size * WARM_UP) :])
    return Replications(tuple(replicated))


def _joined(parts: Sequence[Floats]) -> tuple[Floats, npt.NDArray[np.int64]]:
    return np.concatenate(parts), np.cumsum([part.size for part in parts], dtype=np.int64)


@compiled()
def _serve(  # noqa: C901, PLR0912, PLR0917 - compiled code takes its arguments by position
    due: Floats, due_ends: Any, work: Floats, work_ends: Any, paused: Floats, paused_ends: Any,
    growth: Floats, growth_ends: Any, speeds: Floats, done: Floats,
) -> None:  # fmt: skip
    """Fill in when every request is done; arrays of all tenants, concatenated, with the end of each."""
    count = due_ends.size
    first = np.zeros(count, np.int64)  # next request to start, and next to arrive
    came = np.zeros(count, np.int64)
    size = np.zeros(count, np.int64)
    batches = np.zeros(count, np.int64)
    left = np.zeros(count)
    for line in range(count):
        first[line] = came[line] = due_ends[line - 1] if line else 0
    now, active, together = 0.0, 0, speeds.shape[0] > 1
    while True:
        ahead, ends, ending = np.inf, np.inf, -1
        for line in range(count):
            if came[line] < due_ends[line]:
                ahead = min(ahead, due[came[line]])
            if active >> line & 1:
                end = now + left[line] / speeds[active if together else 0, line]
                if end < ends:
                    ends, ending = end, line
        if ahead == np.inf and ending < 0:
            break
        until = min(ahead, ends)
        for line in range(count):
            if active >> line & 1:
                left[line] = max(left[line] - (until - now) * speeds[active if together else 0, line], 0.0)
        now = until
        for line in range(count):
            idle = not active >> line & 1
            if ahead <= ends:
                while came[line] < due_ends[line] and due[came[line]] <= now:
                    came[line] += 1
            elif line == ending:
                for request in range(first[line], first[line] + size[line]):
                    done[request] = now
                first[line] += size[line]
                active &= ~(1 << line)
            else:
                continue
            if not active >> line & 1 and first[line] < came[line]:
                begin = growth_ends[line - 1] if line else 0
                size[line] = min(came[line] - first[line], growth_ends[line] - begin)
                table, table_ends = (paused, paused_ends) if idle else (work, work_ends)
                start = table_ends[line - 1] if line else 0
                alone = table[start + batches[line] % (table_ends[line] - start)]
                left[line] = alone * growth[begin + size[line] - 1]
                batches[line] += 1
                active |= 1 << line
