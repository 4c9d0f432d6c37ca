"""Two servers on simulated time whose interference is known: what `watch` would read of them, and the truth.

Server B works through its requests at a speed that falls when server A works (by a set factor), when B itself has much
to do, when a third neighbour works that publishes nothing, and slowly over time. B in turn slows A. The truth is the
mean time of B's requests while A is busy, over that of the very same requests with A's influence removed.
"""

import heapq
import math
from dataclasses import dataclass

import numpy as np

from cotenant.analyse.neighbours.totals import Floats

BUCKETS_S = (0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0, math.inf)


@dataclass(frozen=True, slots=True)
class Script:
    """What happens on the machine."""

    seed: int
    slows: float
    """Factor by which B's work takes longer while A works."""
    minutes: float = 60.0
    back: float = 1.5
    """The same for A while B works."""
    unseen: float = 1.3
    """The same for B while the third neighbour works; it is on half of the time."""
    drift: float = 0.15
    """B's speed wanders by about this share within half an hour."""
    together: float = 0.5
    """Share of B's bursts that come with a busy time of A: the same users cause both."""
    rate_b: float = 8.0
    burst: float = 3.0
    """B's own bursts: this many times its rate."""
    rate_a: float = 40.0
    always_busy: bool = False
    """A never rests."""


@dataclass(frozen=True, slots=True)
class Served:
    """Completed requests of a server."""

    arrived_s: Floats
    done_s: Floats

    def page(self, t_s: Floats) -> tuple[Floats, Floats, Floats]:
        """Its counters at these times: requests, their summed latency, and buckets."""
        order = np.argsort(self.done_s)
        done, latency = self.done_s[order], (self.done_s - self.arrived_s)[order]
        upto = np.searchsorted(done, t_s, side="right")
        sums = np.concatenate([[0.0], np.cumsum(latency)])[upto]
        buckets = np.stack(
            [np.concatenate([[0], np.cumsum(latency <= edge)])[upto] for edge in BUCKETS_S], axis=1
        ).astype(np.float64)
        return upto.astype(np.float64), sums, buckets


def play(script: Script) -> tuple[Served, Served, float]:
    """A's and B's requests, and the truth."""
    scenery = _scenery(script)
    a, b = _served(scenery, script.slows, script.back)
    _, alone = _served(scenery, 1.0, script.back)
    busy = _busy_at(scenery, b.done_s)
    return a, b, float((b.done_s - b.arrived_s)[busy].mean() / (alone.done_s - alone.arrived_s)[busy].mean())


@dataclass(frozen=True, slots=True)
class _Scenery:
    """Everything that is drawn, so that it can be played with and without interference."""

    a_s: Floats
    b_s: Floats
    a_work_s: Floats
    b_work_s: Floats
    changes: tuple[tuple[float, float], ...]
    """Time, and what B's work costs from then on: drift and the unseen neighbour."""
    phases: tuple[tuple[float, float, int], ...]
    """A's phases: from, until, level."""


def _scenery(script: Script) -> _Scenery:
    draw = np.random.default_rng(script.seed)
    end = 60 * script.minutes
    phases: list[tuple[float, float, int]] = []
    at, level = 0.0, int(draw.integers(0, 3))
    while at < end:
        until = min(end, at + 20 + float(draw.exponential(70.0)))
        phases.append((at, until, 2 if script.always_busy else level))
        at, level = until, (level + int(draw.integers(1, 3))) % 3
    rates = (0.0, 0.12 * script.rate_a, script.rate_a)
    a_s = np.concatenate([_poisson(draw, since, until, rates[level]) for since, until, level in phases])
    bursts = [
        (since, min(until, since + 30.0))
        for since, until, level in phases
        if level == 2 and draw.random() < script.together
    ]
    at = float(draw.exponential(150.0))
    while at < end:
        bursts.append((at, min(end, at + 15 + float(draw.exponential(20.0)))))
        at += 60 + float(draw.exponential(200.0))
    extra = (script.burst - 1) * script.rate_b
    b_s = np.sort(
        np.concatenate(
            [_poisson(draw, 0, end, script.rate_b), *(_poisson(draw, since, until, extra) for since, until in bursts)]
        )
    )
    return _Scenery(
        a_s,
        b_s,
        0.08 * draw.lognormal(-0.125, 0.5, a_s.size),
        0.06 * draw.lognormal(-0.18, 0.6, b_s.size),
        _changes(draw, script, end),
        tuple(phases),
    )


def _changes(draw: np.random.Generator, script: Script, end: float) -> tuple[tuple[float, float], ...]:
    step = 5.0
    count = int(end / step) + 1
    wander = np.cumsum(draw.normal(0, 1, count)) * script.drift * math.sqrt(step / 1800)
    toggles: list[float] = []
    at = 0.0
    while at < end:
        at += 10 + float(draw.exponential(80.0))
        toggles.append(at)
    on = np.searchsorted(toggles, np.arange(count) * step) % 2
    costs = np.exp(wander) * script.unseen**on
    return tuple(zip((np.arange(count) * step).tolist(), costs.tolist(), strict=True))


def _poisson(draw: np.random.Generator, since: float, until: float, rate: float) -> Floats:
    return np.sort(draw.uniform(since, until, int(draw.poisson(rate * (until - since)))))


def _served(scenery: _Scenery, slows: float, back: float) -> tuple[Served, Served]:
    """Requests in service share a server's speed little: each beyond the first costs all of them 4 %."""
    a_s, b_s = scenery.a_s.tolist(), scenery.b_s.tolist()
    a_done, b_done = [0.0] * len(a_s), [0.0] * len(b_s)
    a_work, b_work = scenery.a_work_s.tolist(), scenery.b_work_s.tolist()
    a_heap: list[tuple[float, int]] = []
    b_heap: list[tuple[float, int]] = []
    changes = iter([*scenery.changes[1:], (math.inf, 1.0)])
    cost, (change_at, next_cost) = scenery.changes[0][1], next(changes)
    now = a_virtual = b_virtual = 0.0
    next_a = next_b = 0
    while next_a < len(a_s) or next_b < len(b_s) or a_heap or b_heap:
        a_speed = 1 / ((back if b_heap else 1.0) * (1 + 0.04 * max(0, len(a_heap) - 1)))
        b_speed = 1 / (cost * (slows if a_heap else 1.0) * (1 + 0.04 * max(0, len(b_heap) - 1)))
        a_end = now + (a_heap[0][0] - a_virtual) / a_speed if a_heap else math.inf
        b_end = now + (b_heap[0][0] - b_virtual) / b_speed if b_heap else math.inf
        a_in = a_s[next_a] if next_a < len(a_s) else math.inf
        b_in = b_s[next_b] if next_b < len(b_s) else math.inf
        then = min(a_end, b_end, a_in, b_in, change_at)
        a_virtual += (then - now) * a_speed
        b_virtual += (then - now) * b_speed
        now = then
        if then == a_end:
            a_done[heapq.heappop(a_heap)[1]] = now
        elif then == b_end:
            b_done[heapq.heappop(b_heap)[1]] = now
        elif then == a_in:
            heapq.heappush(a_heap, (a_virtual + a_work[next_a], next_a))
            next_a += 1
        elif then == b_in:
            heapq.heappush(b_heap, (b_virtual + b_work[next_b], next_b))
            next_b += 1
        else:
            cost, (change_at, next_cost) = next_cost, next(changes)
    return Served(scenery.a_s, np.array(a_done)), Served(scenery.b_s, np.array(b_done))


def _busy_at(scenery: _Scenery, t_s: Floats) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    busy = np.zeros(t_s.size, np.bool_)
    for since, until, level in scenery.phases:
        if level == 2:
            busy |= (t_s >= since) & (t_s < until)
    return busy
