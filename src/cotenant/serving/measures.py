"""Running statistics of served requests by tenant, for metrics, the live page and the terminal."""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cotenant.serving.conduct.conductor import NOT_OURS, Outcome

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
RECENT = 4096
"""Recent outcomes per tenant used for quantiles."""


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
    recent: deque[Outcome] = field(default_factory=lambda: deque(maxlen=RECENT))

    @property
    def asked(self) -> int:
        """All requests except those whose client disconnected or sent what can't be answered."""
        return self.served + sum(count for why, count in self.why.items() if why not in NOT_OURS)


class Measures:
    """Statistics of all tenants, with listeners for each outcome."""

    def __init__(self) -> None:
        self.tenants: dict[str, TenantMeasures] = {}
        self._listeners: list[Callable[[Outcome], None]] = []

    def listen(self, listener: Callable[[Outcome], None]) -> None:
        """Call a function with each outcome."""
        self._listeners.append(listener)

    def of(self, tenant: str) -> TenantMeasures:
        """Figures of a tenant."""
        found = self.tenants.get(tenant)
        if found is None:
            found = self.tenants[tenant] = TenantMeasures()
        return found

    def add(self, outcome: Outcome) -> None:
        """Count one request."""
        tenant, arrived, began, first, done, device_s, predicted_s, met, why, tokens, _ = outcome
        one = self.of(tenant)
        one.recent.append(outcome)
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
        for listener in self._listeners:
            listener(outcome)

    def lately(self, tenant: str, since: float) -> dict[str, Any]:
        """Rate, attainment and latency quantiles since a time; quantiles of served requests only."""
        outcomes = [one for one in self.of(tenant).recent if one.done >= since and one.why not in NOT_OURS]
        times = sorted(one.done - one.arrived for one in outcomes if one.why is None)
        return {
            "requests": len(outcomes),
            "attainment": sum(one.met for one in outcomes) / len(outcomes) if outcomes else None,
            "p50_ms": 1e3 * times[len(times) // 2] if times else None,
            "p90_ms": 1e3 * times[int(0.9 * len(times))] if times else None,
            "p99_ms": 1e3 * times[int(0.99 * len(times))] if len(times) >= 299 else None,
            "shed": dict(Counter(one.why for one in outcomes if one.why is not None)),
        }
