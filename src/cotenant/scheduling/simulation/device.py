"""A simulated device: actual chunk times with noise, cold starts and changing speed."""

import math
import random
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from cotenant.errors import SchedulingError
from cotenant.scheduling.costs import TenantCosts
from cotenant.scheduling.instructions import Chunk


@dataclass(frozen=True, slots=True)
class SpeedModes:
    """The device is ``factors[i]`` times slower for exponential periods of mean ``dwell_s``, then changes."""

    factors: tuple[float, ...] = (1.0,)
    dwell_s: float = math.inf


class SpeedTrace:
    """A recorded speed: the device is ``factors[i]`` times slower from ``times[i]`` on; infinity stops it."""

    def __init__(self, times: Sequence[float], factors: Sequence[float]) -> None:
        if math.isinf(factors[-1]):
            raise SchedulingError("A device that stops for ever finishes nothing: its last factor has to be finite.")
        self._times = times
        self._rates = [1 / factor for factor in factors]
        self._work = [0.0]
        for place, rate in enumerate(self._rates[:-1]):
            self._work.append(self._work[-1] + (times[place + 1] - times[place]) * rate)

    @classmethod
    def bursts(cls, every_s: float, length_s: float, factor: float, duration_s: float, seed: int) -> Self:
        """Slower by the factor in bursts: exponential lengths and pauses with these means, as with a busy neighbour."""
        numbers = random.Random(seed)  # noqa: S311
        times, factors = [0.0], [1.0]
        while times[-1] < duration_s:
            calm = factors[-1] == 1.0
            times.append(times[-1] + numbers.expovariate(1 / (every_s if calm else length_s)))
            factors.append(factor if calm else 1.0)
        return cls([*times, times[-1]], [*factors, 1.0])

    def work_s(self, time: float) -> float:
        """Work done by then, in seconds of a device of factor 1; before the first time, at the first factor."""
        place = max(0, bisect_right(self._times, time) - 1)
        return self._work[place] + (time - self._times[place]) * self._rates[place]

    def end(self, began: float, work_s: float) -> float:
        """When work that begins then is done."""
        done = self.work_s(began) + work_s
        place = max(0, bisect_left(self._work, done) - 1)
        return self._times[place] + (done - self._work[place]) / self._rates[place]


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
        self._speeds = random.Random(seed)  # noqa: S311 - not the schedule's business
        self._mode = 0
        self._mode_until = self._dwell(0.0)

    def _dwell(self, now: float) -> float:
        return math.inf if math.isinf(self._modes.dwell_s) else now + self._speeds.expovariate(1 / self._modes.dwell_s)

    def chunk_s(self, chunk: Chunk, batch: int, scale: float, began: float, idle_s: float) -> float:
        """Time of a chunk of a batch that begins at ``began``, after ``idle_s`` of idle time."""
        while began >= self._mode_until:
            others = [mode for mode in range(len(self._modes.factors)) if mode != self._mode]
            self._mode = self._speeds.choice(others) if others else self._mode
            self._mode_until = self._dwell(self._mode_until)
        costs = self._costs[chunk.tenant]
        cost = costs.step if chunk.steps else costs.chunks[chunk.stage]
        assert cost is not None
        chunk_s = cost.spaced_s if idle_s > self._gap_s else cost.p50_s
        work = chunk.steps * costs.step_curve.at(batch) if chunk.steps else scale * costs.curve.at(batch)
        noise = math.exp(self._random.gauss(0.0, self._noise)) if self._noise else 1.0
        work_s = chunk_s * work * noise * self._modes.factors[self._mode]
        return self._trace.end(began, work_s) - began if self._trace else work_s


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
