"""Correct costs by measured chunk times: a speed for the device, a factor per chunk.

All estimates are in logarithms, so that twice as slow and twice as fast weigh the same. A chunk after an idle gap only
updates its own spaced cost: caches and clocks have gone cold, which back-to-back plans must not learn from.
"""

import math
from collections.abc import Callable

from cotenant.scheduling.costs import ChunkCost, TenantCosts

SPEED_GAIN = 0.08
CHUNK_GAIN = 0.03
SPACED_GAIN = 0.1
SPREAD_GAIN = 0.02
BURST_GAIN = 0.3
JUMP = 0.25
"""A run of one-sided errors this large is a change of the device's speed, not noise."""
JUMP_LENGTH = 3
MOST = 0.7
"""A single chunk changes the estimate by at most a factor of two: a chunk that took seconds was stopped with its
process."""
FADE_S = 5.0
"""Time constant with which an idle device's learnt speed is forgotten: a device believed to be too slow for every
request would refuse them all and never learn otherwise."""
FIRST_BURST_S = 0.2
"""How long a slowdown is expected to last before any was seen; the length so far of the present one is added."""
BURST_MEMORY = 0.9
"""Weight of the lengths of earlier bursts, per burst."""
LASTING_S = FADE_S
"""A slowdown of this length is the device's new speed."""
JITTER_S = 10.0
"""Time constant of the device time lost to surprises."""


class DeviceSpeed:
    """Ratio of chunk times to their corrected costs, over all tenants.

    ``level`` is the lasting part, in logarithms, and ``burst`` the part of a slowdown that should end soon: another
    process took the core, or the device throttled for a moment. Work is planned at ``factor``, the lasting speed, and a
    burst takes time from the horizon (``horizon``). Were each cost multiplied by it, requests with time to outlast the
    burst would be refused, and the device would idle until it is forgotten.
    """

    __slots__ = (
        "_began", "_bursts", "_bursts_s", "_faded", "_seen", "_surprises", "burst", "ease", "factor", "jitter", "level",
        "pace", "stamp",
    )  # fmt: skip

    def __init__(self) -> None:
        self.level = self.burst = 0.0
        self.factor = self.pace = self.ease = 1.0
        self.jitter = 0.0
        """Recent mean of the squared time lost to a surprise, per second of device time."""
        self.stamp = 0
        """Counts changes: every back-to-back chunk changes the speed, so costs derived before may be out of date."""
        self._surprises: list[float] = []
        self._faded = self._seen = -math.inf
        self._began = 0.0
        self._bursts, self._bursts_s = 1.0, FIRST_BURST_S

    def fade(self, since: float, now: float) -> None:
        """Forget the speed of a device that has been idle since that time."""
        since = max(since, self._faded)
        if now > since and (self.level or self.burst):
            self.level *= math.exp((since - now) / FADE_S)
            if self.burst and now - self._seen > self._burst_s():
                self._end_burst(self._seen)
            self._faded = now
            self._derive()

    def horizon(self, begin: float) -> Callable[[float], float] | None:
        """In a burst, what a deadline is to work that begins then and runs at the lasting speed; otherwise None.

        The burst goes on for an exponential time with the mean of those seen, so that the time lost to it until a
        deadline levels off.
        """
        if not self.burst:
            return None
        mean_s = self._burst_s()
        lost_s = (1 - self.ease) * mean_s * math.exp(min(0.0, self._seen - begin) / mean_s)
        return lambda due: due + lost_s * math.expm1(min(0.0, begin - due) / mean_s)

    def see(self, surprise: float, ended: float, took_s: float) -> None:
        """Learn from log(actual / predicted) of a back-to-back chunk."""
        self._seen = ended
        memory = math.exp(-took_s / JITTER_S)
        lost_s = -took_s * math.expm1(-surprise) if surprise > JUMP else 0.0
        self.jitter = memory * self.jitter + (1 - memory) * lost_s * lost_s / took_s
        if self.burst and ended - self._began > LASTING_S:
            self.level += self.burst
            self.burst = 0.0
        if abs(surprise) <= JUMP:
            self._surprises.clear()
            if self.burst:
                self.burst = max(0.0, self.burst + BURST_GAIN * surprise)
            else:
                self.level += SPEED_GAIN * surprise
        elif surprise < 0 < self.burst:  # no chunk is faster than the device
            self._surprises.clear()
            self.burst += surprise
            if self.burst < JUMP:
                self._end_burst(ended)
        else:
            self._jump(surprise, ended - took_s)
        self._derive()

    def _jump(self, surprise: float, began: float) -> None:
        if self._surprises and self._surprises[0] * surprise < 0:
            self._surprises.clear()
        self._surprises.append(surprise)
        if len(self._surprises) < JUMP_LENGTH:
            self.level += SPEED_GAIN * math.copysign(JUMP, surprise)
            return
        step = sorted(self._surprises)[JUMP_LENGTH // 2]
        self._surprises.clear()
        if step < 0:
            self.level += step
            return
        if not self.burst:
            self._began = began
        self.burst += step

    def _burst_s(self) -> float:
        """Mean length of bursts, counting the present one as far as it was seen."""
        return (self._bursts_s + max(0.0, self._seen - self._began)) / self._bursts

    def _end_burst(self, ended: float) -> None:
        self._bursts_s = BURST_MEMORY * (self._bursts_s + max(0.0, ended - self._began))
        self._bursts = BURST_MEMORY * (self._bursts + 1)
        self.burst = 0.0

    def _derive(self) -> None:
        self.factor = math.exp(self.level)
        self.ease = math.exp(-self.burst) if self.burst else 1.0
        self.pace = self.factor / self.ease
        self.stamp += 1


class ChunkEstimate:
    """The corrected cost of a chunk, relative to the device's speed."""

    __slots__ = ("_ratio", "_spaced", "_spread", "base", "p50_s", "spaced_s", "variance")

    def __init__(self, base: ChunkCost) -> None:
        self.base = base
        self._ratio = 0.0
        self._spaced = 0.0
        self._spread = math.log(base.p90_s / base.p50_s)
        self._apply()

    def see(self, took_over_one: float, speed: DeviceSpeed, ended: float, took_s: float) -> None:
        """Learn from a back-to-back run: its time at batch 1, its end and its time."""
        surprise = _clipped(math.log(took_over_one / (self.p50_s * speed.pace)))
        self._spread = max(0.0, self._spread + SPREAD_GAIN * (0.9 if surprise > self._spread else -0.1))
        self._ratio += CHUNK_GAIN * surprise
        speed.see(surprise, ended, took_s)
        self._apply()

    def see_spaced(self, took_over_one: float, speed: DeviceSpeed) -> None:
        """Learn from a run after a gap."""
        surprise = _clipped(math.log(took_over_one / (self.spaced_s * speed.pace)))
        self._spaced += SPACED_GAIN * surprise
        self._apply()

    def _apply(self) -> None:
        self.p50_s = self.base.p50_s * math.exp(self._ratio)
        self.spaced_s = self.base.spaced_s * math.exp(self._spaced)
        above = self.p50_s * math.expm1(self._spread)
        self.variance = above * above


def _clipped(surprise: float) -> float:
    return max(-MOST, min(MOST, surprise))


class CostEstimate:
    """The corrected costs of a tenant: the rest of a request, by the number of chunks done.

    ``rest_s[i]`` and ``rest_variance[i]`` hold for a request that has done i chunks, decode steps not counted. The
    "variance" is the square of p90 - p50: independent chunks add in quadrature, so that a request in many chunks isn't
    planned as if every chunk were slow.
    """

    __slots__ = ("chunks", "costs", "rest_s", "rest_variance", "speed", "step")

    def __init__(self, costs: TenantCosts, speed: DeviceSpeed) -> None:
        self.costs = costs
        self.speed = speed
        self.chunks = [ChunkEstimate(chunk) for chunk in costs.chunks]
        self.step = ChunkEstimate(costs.step) if costs.step else None
        self.rest_s = [0.0] * (len(self.chunks) + 1)
        self.rest_variance = [0.0] * (len(self.chunks) + 1)
        self._add_up(len(self.chunks) - 1)

    def see(
        self, index: int, steps: int, batch: int, scale: float, *, began: float, ended: float, spaced: bool
    ) -> None:
        """Learn from a chunk that ended."""
        took_s = ended - began
        if took_s <= 0:
            return
        work = steps * self.costs.step_curve.at(batch) if steps else scale * self.costs.curve.at(batch)
        chunk = self.step if steps else self.chunks[index]
        assert chunk is not None
        if spaced:
            chunk.see_spaced(took_s / work, self.speed)
        else:
            chunk.see(took_s / work, self.speed, ended, took_s)
        if not steps:
            self._add_up(index)

    def chunk_s(self, index: int, steps: int, batch: int, scale: float, *, spaced: bool) -> float:
        """Current median time of a chunk."""
        chunk = self.step if steps else self.chunks[index]
        assert chunk is not None
        unscaled_s = (chunk.spaced_s if spaced else chunk.p50_s) * self.speed.pace
        return unscaled_s * (steps * self.costs.step_curve.at(batch) if steps else scale * self.costs.curve.at(batch))

    def request_s(self, scale: float, steps: int) -> float:
        """Median device time of a complete request alone, back to back: the charge to a tenant's account."""
        step = self.step.p50_s * steps if self.step else 0.0
        return (self.rest_s[0] * scale + step) * self.speed.factor

    def _add_up(self, last: int) -> None:
        """Update the rest of requests that have this chunk or an earlier chunk ahead."""
        rest, variance = self.rest_s[last + 1], self.rest_variance[last + 1]
        for index in range(last, -1, -1):
            chunk = self.chunks[index]
            self.rest_s[index] = rest = rest + chunk.p50_s
            self.rest_variance[index] = variance = variance + chunk.variance
