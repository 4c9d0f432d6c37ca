"""Running statistics of served requests by tenant, for metrics, the live page and the terminal.

Outcomes are counted a little later, many at a time: no client waits for it. Whoever reads counts them first.
"""

import asyncio
import math
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from cotenant.serving.tickets import NOT_OURS, RequestOutcome

# What became of a tenant's requests in the last quarter of an hour, in slots of ten seconds.

SLOT_S = 10.0
SLOTS = 90
_STEP = math.log(1.04)
"""Quantiles are exact to half a bin, 2 %."""
ENOUGH_FOR_P99 = 299


@dataclass(slots=True)
class RecentSlot:
    """Ten seconds of a tenant."""

    number: int
    requests: int = 0
    met: int = 0
    device_s: float = 0.0
    why: Counter[str] = field(default_factory=Counter)
    latencies: Counter[int] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class RecentWindow:
    """A tenant's latest requests."""

    seconds: float
    """The time that they span: whole slots and the current."""
    requests: int
    device_s: float
    attainment: float | None
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    shed: dict[str, int]


class Lately:
    """The slots of a tenant."""

    def __init__(self) -> None:
        self._slots: deque[RecentSlot] = deque(maxlen=SLOTS)

    def add(self, done: float, latency_s: float, device_s: float, *, met: bool, why: str | None) -> None:
        """Count a request; ``why`` it was not served."""
        number = int(done / SLOT_S)
        if not self._slots or self._slots[-1].number < number:
            self._slots.append(RecentSlot(number))
        slot = self._slots[-1]
        slot.requests += 1
        slot.met += met
        slot.device_s += device_s
        if why is None:
            slot.latencies[bin_of(latency_s)] += 1
        else:
            slot.why[why] += 1

    def window(self, now: float, length_s: float) -> RecentWindow:
        """The latest requests, quantiles of those served."""
        first = int(now / SLOT_S) - round(length_s / SLOT_S) + 1
        slots = [slot for slot in self._slots if slot.number >= first]
        latencies: Counter[int] = Counter()
        why: Counter[str] = Counter()
        for slot in slots:
            latencies.update(slot.latencies)
            why.update(slot.why)
        requests, served = sum(slot.requests for slot in slots), latencies.total()
        return RecentWindow(
            seconds=now - first * SLOT_S,
            requests=requests,
            device_s=sum(slot.device_s for slot in slots),
            attainment=sum(slot.met for slot in slots) / requests if requests else None,
            p50_ms=quantile_ms(latencies, 0.5) if served else None,
            p90_ms=quantile_ms(latencies, 0.9) if served else None,
            p99_ms=quantile_ms(latencies, 0.99) if served >= ENOUGH_FOR_P99 else None,
            shed=dict(why),
        )

    def counts(self, now: float) -> list[tuple[int, int]]:
        """By slot, oldest first, the current last: requests, and those in time."""
        known = {slot.number: (slot.requests, slot.met) for slot in self._slots}
        last = int(now / SLOT_S)
        return [known.get(number, (0, 0)) for number in range(last - SLOTS + 1, last + 1)]

    def curves(self, now: float) -> dict[str, list[Any]]:
        """What a page draws, oldest first: p50 and p99 by minute; by slot what wasn't served, and device time."""
        known = {slot.number: (slot.why.total(), slot.device_s) for slot in self._slots}
        last = int(now / SLOT_S)
        by_slot = [known.get(number, (0, 0.0)) for number in range(last - SLOTS + 1, last + 1)]
        return {
            "p50_ms": self.curve(now, 0.5),
            "p99_ms": self.curve(now, 0.99),
            "not_served": [refused for refused, _ in by_slot],
            "device": [device_s / SLOT_S for _, device_s in by_slot],
        }

    def curve(self, now: float, share: float, step_s: float = 60.0) -> list[float | None]:
        """This quantile in ms by minute, oldest first, the current last; None without a request."""
        slots_each, last = round(step_s / SLOT_S), int(now / SLOT_S)
        by_step: dict[int, Counter[int]] = {}
        for slot in self._slots:
            by_step.setdefault((last - slot.number) // slots_each, Counter()).update(slot.latencies)
        steps = [by_step.get(back, Counter()) for back in reversed(range(SLOTS // slots_each))]
        return [quantile_ms(latencies, share) if latencies else None for latencies in steps]


def bin_of(seconds: float) -> int:
    """The bin of a time in a histogram."""
    return math.ceil(math.log(max(seconds, 1e-9)) / _STEP)


def quantile_ms(latencies: Counter[int], share: float) -> float:
    """A quantile of the times in a histogram."""
    rank, seen = int(share * latencies.total()), 0
    for place in sorted(latencies):
        seen += latencies[place]
        if seen > rank:
            break
    return 1e3 * math.exp((place - 0.5) * _STEP)


# Histograms as Prometheus counts them.


class Histogram:
    """Counts of values by bucket, and their sum. A value equal to an edge belongs below it."""

    __slots__ = ("_counts", "_edges", "count", "total")

    def __init__(self, edges: tuple[float, ...]) -> None:
        self._edges = edges
        self._counts = [0] * (len(edges) + 1)
        self.count = 0
        self.total = 0.0

    def add(self, value: float, count: int = 1) -> None:
        """Count a value."""
        self._counts[bisect_left(self._edges, value)] += count
        self.count += count
        self.total += value * count

    def buckets(self, most: float | None = None) -> Iterator[tuple[float, int]]:
        """Each edge with the number of values up to it, infinity last; edges above ``most`` are left out."""
        below = 0
        for edge, count in zip(self._edges, self._counts, strict=False):
            below += count
            if most is None or edge <= most:
                yield edge, below
        yield float("inf"), self.count


BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_FIRST_S = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0,
    640.0, 2560.0,
)  # fmt: skip
_GAP_S = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
_REQUEST_S = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
)  # fmt: skip
_TOKENS = tuple(float(step * 10**power) for power in range(6) for step in (1, 2, 5))
LATER_S = 0.02
"""Outcomes are counted this long after the first of them."""


class GenerationMeasures:
    """Times and tokens of a decoder's served requests, in vLLM's buckets."""

    def __init__(self) -> None:
        self.first_s = Histogram(_FIRST_S)
        """From arrival to the first token."""
        self.gap_s = Histogram(_GAP_S)
        """From token to token."""
        self.per_token_s = Histogram(_GAP_S)
        """The same, as a mean of each request."""
        self.whole_s = Histogram(_REQUEST_S)
        self.queue_s = Histogram(_REQUEST_S)
        self.inference_s = Histogram(_REQUEST_S)
        """From the first chunk to the end."""
        self.prefill_s = Histogram(_REQUEST_S)
        self.decode_s = Histogram(_REQUEST_S)
        self.prompt_tokens = Histogram(_TOKENS)
        self.made_tokens = Histogram(_TOKENS)
        self.most_tokens = Histogram(_TOKENS)
        """How many were asked for."""
        self.reasons: Counter[str] = Counter()
        """Why answers ended: `stop` or `length`."""

    def add(self, outcome: RequestOutcome) -> None:
        """Count a served request."""
        arrived, began, first, done = outcome.arrived, outcome.began, outcome.first, outcome.done
        if first is None:
            return
        self.first_s.add(first - arrived)
        self.whole_s.add(done - arrived)
        self.made_tokens.add(outcome.tokens)
        self.decode_s.add(done - first)
        if outcome.tokens > 1:
            self.per_token_s.add((done - first) / (outcome.tokens - 1))
        for gap, count in outcome.gaps:
            self.gap_s.add(gap, count)
        if began is not None:
            self.queue_s.add(began - arrived)
            self.inference_s.add(done - began)
            self.prefill_s.add(first - began)
        if outcome.prompt:  # unknown of a backend's
            self.prompt_tokens.add(outcome.prompt)
            self.most_tokens.add(outcome.most)
        self.reasons["length" if outcome.tokens >= outcome.most > 0 else "stop"] += 1


@dataclass(slots=True)
class TenantMeasures:
    """Figures of a tenant since the start."""

    served: int = 0
    within: int = 0
    tokens: int = 0
    device_s: float = 0.0
    predicted_s: float = 0.0
    latency_s: Histogram = field(default_factory=lambda: Histogram(BUCKETS_S))
    queue_s: float = 0.0
    why: Counter[str] = field(default_factory=Counter)
    generation: GenerationMeasures = field(default_factory=GenerationMeasures)
    lately: Lately = field(default_factory=Lately)

    @property
    def asked(self) -> int:
        """All requests except those whose client disconnected or sent what can't be answered."""
        return self.served + sum(count for why, count in self.why.items() if why not in NOT_OURS)


class Measures:
    """Statistics of all tenants, with listeners for each outcome."""

    def __init__(self) -> None:
        self._tenants: dict[str, TenantMeasures] = {}
        self._listeners: list[Callable[[list[RequestOutcome]], None]] = []
        self._new: list[RequestOutcome] = []

    def listen(self, listener: Callable[[list[RequestOutcome]], None]) -> None:
        """Call a function with all outcomes from now on, several at a time."""
        self._listeners.append(listener)

    def of(self, tenant: str) -> TenantMeasures:
        """Figures of a tenant."""
        self.settle()
        return self._of(tenant)

    def add(self, outcome: RequestOutcome) -> None:
        """Note a request."""
        if not self._new:
            asyncio.get_running_loop().call_later(LATER_S, self.settle)
        self._new.append(outcome)

    def settle(self) -> None:
        """Count what has been noted so far, and pass it on."""
        new, self._new = self._new, []
        if new:
            for outcome in new:
                self._count(outcome)
            for listener in self._listeners:
                listener(new)

    def _of(self, tenant: str) -> TenantMeasures:
        counts = self._tenants.get(tenant)
        if counts is None:
            counts = self._tenants[tenant] = TenantMeasures()
        return counts

    def _count(self, outcome: RequestOutcome) -> None:
        tenant, arrived, began, _, done, device_s, predicted_s, met, why, tokens, *_ = outcome
        counts = self._of(tenant)
        if why not in NOT_OURS:
            counts.lately.add(done, done - arrived, device_s, met=met, why=why)
        counts.tokens += tokens
        counts.device_s += device_s
        if why is None:
            latency = done - arrived
            counts.served += 1
            counts.within += met
            counts.predicted_s += predicted_s
            counts.latency_s.add(latency)
            counts.queue_s += (began or done) - arrived
            if tokens:
                counts.generation.add(outcome)
        else:
            counts.why[why] += 1
