"""Running statistics of served requests by tenant, for metrics, the live page and the terminal.

Outcomes are counted a little later, many at a time: no client waits for it. Whoever reads counts them first.
"""

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from cotenant.serving.conduct.tickets import NOT_OURS, Outcome
from cotenant.serving.lately import Lately

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
LATER_S = 0.02
"""Outcomes are counted this long after the first of them."""


@dataclass(slots=True)
class TenantMeasures:
    """Figures of one tenant since the start."""

    served: int = 0
    within: int = 0
    tokens: int = 0
    device_s: float = 0.0
    predicted_s: float = 0.0
    latency_s: float = 0.0
    queue_s: float = 0.0
    first_s: float = 0.0
    first_count: int = 0
    why: Counter[str] = field(default_factory=Counter)
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    lately: Lately = field(default_factory=Lately)

    @property
    def asked(self) -> int:
        """All requests except those whose client disconnected or sent what can't be answered."""
        return self.served + sum(count for why, count in self.why.items() if why not in NOT_OURS)


class Measures:
    """Statistics of all tenants, with listeners for each outcome."""

    def __init__(self) -> None:
        self._tenants: dict[str, TenantMeasures] = {}
        self._listeners: list[Callable[[list[Outcome]], None]] = []
        self._new: list[Outcome] = []

    def listen(self, listener: Callable[[list[Outcome]], None]) -> None:
        """Call a function with all outcomes from now on, several at a time."""
        self._listeners.append(listener)

    def of(self, tenant: str) -> TenantMeasures:
        """Figures of a tenant."""
        self.settle()
        return self._of(tenant)

    def add(self, outcome: Outcome) -> None:
        """Note one request."""
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
        found = self._tenants.get(tenant)
        if found is None:
            found = self._tenants[tenant] = TenantMeasures()
        return found

    def _count(self, outcome: Outcome) -> None:
        tenant, arrived, began, first, done, device_s, predicted_s, met, why, tokens, _ = outcome
        one = self._of(tenant)
        if why not in NOT_OURS:
            one.lately.add(done, done - arrived, device_s, met=met, why=why)
        one.tokens += tokens
        one.device_s += device_s
        if why is None:
            latency = done - arrived
            one.served += 1
            one.within += met
            one.predicted_s += predicted_s
            one.latency_s += latency
            one.queue_s += (began or done) - arrived
            one.buckets[bisect_left(BUCKETS_S, latency)] += 1
            if first is not None:
                one.first_s += first - arrived
                one.first_count += 1
        else:
            one.why[why] += 1
