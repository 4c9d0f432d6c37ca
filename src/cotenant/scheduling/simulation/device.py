"""A simulated device: actual chunk times with noise, cold starts and changing speed."""

import math
import random
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cotenant.scheduling.costs import TenantCosts
from cotenant.scheduling.instructions import Chunk


@dataclass(frozen=True, slots=True)
class SpeedModes:
    """The device is ``factors[i]`` times slower for exponential periods of mean ``dwell_s``, then changes."""

    factors: tuple[float, ...] = (1.0,)
    dwell_s: float = math.inf


class SpeedTrace:
    """A recorded speed: the device is ``factors[i]`` times slower from ``times[i]`` on."""

    def __init__(self, times: Sequence[float], factors: Sequence[float]) -> None:
        self._times = times
        self._factors = factors

    def at(self, time: float) -> float:
        """The factor then; before the first time, the first factor."""
        return self._factors[max(0, bisect_right(self._times, time) - 1)]


class SimulatedDevice:
    """Time of each chunk: its true cost by batch, times log-normal noise, times the current speed.

    ``costs`` are the true ones; the scheduler's may differ. The first chunk after an idle gap takes its
    spaced cost. ``modes`` change the speed at random, ``trace`` as recorded.
    """

    def __init__(
        self,
        costs: Mapping[str, TenantCosts],
        *,
        noise: float = 0.1,
        modes: SpeedModes | None = None,
        trace: SpeedTrace | None = None,
        gap_s: float = 0.001,
        seed: int = 0,
    ) -> None:
        self._costs = costs
        self._noise = noise
        self._modes = modes or SpeedModes()
        self._trace = trace
        self._gap_s = gap_s
        self._random = random.Random(seed)  # noqa: S311
        self._mode = 0
        self._mode_until = self._dwell(0.0)

    def _dwell(self, now: float) -> float:
        return math.inf if math.isinf(self._modes.dwell_s) else now + self._random.expovariate(1 / self._modes.dwell_s)

    def chunk_s(self, chunk: Chunk, scale: float, began: float, idle_s: float) -> float:
        """Time of a chunk that begins at ``began``, after ``idle_s`` of idle time."""
        while began >= self._mode_until:
            others = [mode for mode in range(len(self._modes.factors)) if mode != self._mode]
            self._mode = self._random.choice(others) if others else self._mode
            self._mode_until = self._dwell(self._mode_until)
        costs = self._costs[chunk.tenant]
        batch = len(chunk.requests)
        cost = costs.step if chunk.steps else costs.chunks[chunk.stage]
        assert cost is not None
        chunk_s = cost.spaced_s if idle_s > self._gap_s else cost.p50_s
        work = chunk.steps * costs.step_curve.at(batch) if chunk.steps else scale * costs.curve.at(batch)
        noise = math.exp(self._random.gauss(0.0, self._noise)) if self._noise else 1.0
        speed = self._modes.factors[self._mode] * (self._trace.at(began) if self._trace else 1.0)
        return chunk_s * work * noise * speed


# --- arrivals as plain values, from a load, a trace or a test


class Arrival(NamedTuple):
    """A future request; fields as in ``events.Arrived``."""

    time: float
    tenant: str
    deadline: float | None = None
    scale: float = 1.0
    steps: int | None = None
    priority: int = 0


def poisson(rates: Mapping[str, float], duration_s: float, seed: int) -> list[Arrival]:
    """Independent Poisson arrivals, in requests per second by tenant, in order of time."""
    random_numbers = random.Random(seed)  # noqa: S311
    arrivals = []
    for tenant, rate in rates.items():
        time = random_numbers.expovariate(rate) if rate > 0 else duration_s
        while time < duration_s:
            arrivals.append(Arrival(time, tenant))
            time += random_numbers.expovariate(rate)
    arrivals.sort(key=lambda arrival: arrival.time)
    return arrivals
