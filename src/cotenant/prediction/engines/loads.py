"""An engine's times by load: simulated at a few loads when they are first asked for, interpolated between them.

If every step takes `s` times as long beside neighbours, `r` requests per second are to the engine what `s r` were
alone, and all times are `s` times as long. So one table over the rate serves for thousands of mixes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from cotenant.prediction.engines.tails import EngineQueue, EngineTimes, engine_times
from cotenant.prediction.kernels.columns import Floats

LOADS = (0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.87, 0.93, 0.97)
"""Shares of the most that the engine keeps up with."""
STEPS = 40_000
"""Simulated at each load."""

LONE_STEPS = 8_000
"""Simulated for one request at a time, which all take as long."""

Arrivals = Callable[[float, int, float], Floats]
"""Due times in seconds by rate, seed and horizon."""


@dataclass(slots=True)
class EngineLoads:
    """One engine on one part of a device."""

    engine: EngineQueue
    arrivals: Arrivals
    _capacity: float | None = None
    _idle: EngineTimes | None = None
    _times: dict[int, EngineTimes] = field(default_factory=dict)
    _quantiles: dict[tuple[str, float, int], float] = field(default_factory=dict)

    @property
    def capacity_rps(self) -> float:
        """Requests per second that it completes while more wait than it can take."""
        if self._capacity is None:
            engine = self.engine
            most = min(engine.settings.max_sequences, engine.held)
            saturated = engine_times(engine, None, in_flight=most + max(most // 4, 1), steps=STEPS)
            self._capacity = saturated.facts["tokens_per_s"] / engine.output
        return self._capacity

    @property
    def idle(self) -> EngineTimes:
        """A request at a time."""
        if self._idle is None:
            self._idle = engine_times(self.engine, None, in_flight=1, steps=LONE_STEPS)
        return self._idle

    def times(self, number: int) -> EngineTimes:
        """Simulated at one of `LOADS`."""
        if number not in self._times:
            rate = self.capacity_rps * LOADS[number]
            together = self.engine.settings.max_sequences * LOADS[number] ** 2
            self._times[number] = engine_times(
                self.engine,
                lambda seed, horizon: self.arrivals(rate, seed, horizon),
                rate_rps=rate,
                together=together,
                steps=STEPS,
            )
        return self._times[number]

    def quantile(self, metric: str, level: float, rate_rps: Floats, slowdown: Floats) -> Floats:
        """The level's quantile of `ttft`, `tpot` or `latency` in seconds; infinite if it can't keep up.

        Args:
            metric: Which time.
            level: For example 0.95.
            rate_rps: Requests per second.
            slowdown: Time of steps beside neighbours over time alone.
        """

        def at(number: int) -> float:
            key = metric, level, number
            if key not in self._quantiles:
                self._quantiles[key] = self.times(number).of(metric).quantile(level)[1]
            return self._quantiles[key]

        return self._between(at, rate_rps, slowdown) * slowdown

    def fact(self, name: str, rate_rps: Floats, slowdown: Floats) -> Floats:
        """A fact of the engine, such as its sequences per step, at these loads; infinite if it can't keep up."""
        return self._between(lambda number: self.times(number).facts[name], rate_rps, slowdown)

    def usual(self, rate_rps: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Alone: shares of time with a step and with kernels, the load of the device, and sequences in progress.

        The load is above 1 where the engine can't keep up.
        """
        ones = np.ones_like(rate_rps)
        busy, device = (self.fact(name, rate_rps, ones) for name in ("busy", "device_busy"))
        load = rate_rps / self.capacity_rps
        full = self.times(len(LOADS) - 1).facts
        kernels = full["device_busy"] / full["busy"]
        stays = self.fact("sequences_per_step", rate_rps, ones) * np.where(np.isfinite(busy), busy, 1.0)
        return busy, device, load * kernels, stays

    def _between(self, at: Callable[[int], float], rate_rps: Floats, slowdown: Floats) -> Floats:
        """Interpolate the logarithm; beyond the last load it grows as queues do."""
        load = np.asarray(rate_rps * slowdown / self.capacity_rps, dtype=np.float64)
        grid = np.array(LOADS)
        upper = np.clip(np.searchsorted(grid, load), 1, grid.size - 1)
        needed = np.unique(np.concatenate([(upper - 1).ravel(), upper.ravel()])[np.tile((load < 1).ravel(), 2)])
        known = np.full(grid.size, np.nan)
        for number in needed:
            known[number] = np.log(max(at(int(number)), 1e-12))
        weight = np.clip((load - grid[upper - 1]) / (grid[upper] - grid[upper - 1]), 0.0, 1.0)
        logs = known[upper - 1] * (1 - weight) + known[upper] * weight
        beyond = np.log((1 - grid[-1]) / np.maximum(1 - np.maximum(load, grid[-1]), 1e-6))
        return np.where(load < 1, np.exp(logs + beyond), np.inf)
