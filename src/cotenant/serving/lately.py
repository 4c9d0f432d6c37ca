"""What became of a tenant's requests in the last quarter of an hour, in slots of ten seconds.

The memory is bounded whatever the rate: a slot has counts and a histogram of latencies, not requests.
"""

import math
from collections import Counter, deque
from dataclasses import dataclass, field

SLOT_S = 10.0
SLOTS = 90
_STEP = math.log(1.04)
"""Quantiles are exact to half a bin, 2 %."""
ENOUGH_FOR_P99 = 299


@dataclass(slots=True)
class Slot:
    """Ten seconds of one tenant."""

    number: int
    requests: int = 0
    met: int = 0
    device_s: float = 0.0
    why: Counter[str] = field(default_factory=Counter)
    latencies: Counter[int] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Window:
    """A tenant's latest requests."""

    seconds: float
    """The time that they span: whole slots and the current one."""
    requests: int
    device_s: float
    attainment: float | None
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    shed: dict[str, int]


class Lately:
    """The slots of one tenant."""

    def __init__(self) -> None:
        self._slots: deque[Slot] = deque(maxlen=SLOTS)

    def add(self, done: float, latency_s: float, device_s: float, *, met: bool, why: str | None) -> None:
        """Count a request; ``why`` it was not served."""
        number = int(done / SLOT_S)
        if not self._slots or self._slots[-1].number < number:
            self._slots.append(Slot(number))
        slot = self._slots[-1]
        slot.requests += 1
        slot.met += met
        slot.device_s += device_s
        if why is None:
            slot.latencies[bin_of(latency_s)] += 1
        else:
            slot.why[why] += 1

    def window(self, now: float, length_s: float) -> Window:
        """The latest requests, quantiles of those served."""
        first = int(now / SLOT_S) - round(length_s / SLOT_S) + 1
        slots = [slot for slot in self._slots if slot.number >= first]
        latencies: Counter[int] = Counter()
        why: Counter[str] = Counter()
        for slot in slots:
            latencies.update(slot.latencies)
            why.update(slot.why)
        requests, served = sum(slot.requests for slot in slots), latencies.total()
        return Window(
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
        """By slot, oldest first, the current one last: requests, and those in time."""
        known = {slot.number: (slot.requests, slot.met) for slot in self._slots}
        last = int(now / SLOT_S)
        return [known.get(number, (0, 0)) for number in range(last - SLOTS + 1, last + 1)]

    def curve(self, now: float, share: float, step_s: float = 60.0) -> list[float | None]:
        """This quantile in ms by minute, oldest first, the current one last; None without a request."""
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
