"""Running statistics of served requests by tenant, for metrics, the live page and the terminal."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from cotenant.serving.conduct.conductor import NOT_OURS, Outcome
from cotenant.serving.lately import Lately

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


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
        for listener in self._listeners:
            listener(outcome)
