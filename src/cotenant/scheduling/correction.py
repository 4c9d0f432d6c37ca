"""Correct costs by measured chunk times: a speed for the device, a factor per chunk.

All estimates are in logarithms, so that twice as slow and twice as fast weigh the same. A chunk after an idle gap only
updates its own spaced cost: caches and clocks have gone cold, which back-to-back plans must not learn from.
"""

import math

from cotenant.scheduling.costs import ChunkCost, TenantCosts

SPEED_GAIN = 0.08
CHUNK_GAIN = 0.03
SPACED_GAIN = 0.1
SPREAD_GAIN = 0.02
JUMP = 0.25
"""A run of one-sided errors this large is a change of the device's speed, not noise."""
JUMP_LENGTH = 3
MOST = 0.7
"""A single chunk changes the estimate by at most a factor of two: a chunk that took seconds was stopped with its
process."""
FADE_S = 5.0
"""Time constant with which an idle device's learnt speed is forgotten: a device believed to be too slow for every
request would refuse them all and never learn otherwise."""


class DeviceSpeed:
    """Ratio of chunk times to their corrected costs, over all tenants."""

    __slots__ = ("_at", "_surprises", "factor", "level", "stamp")

    def __init__(self) -> None:
        self.level = 0.0
        self.factor = 1.0
        self.stamp = 0
        """Counts changes: every back-to-back chunk changes the speed, so costs derived before may be out of date."""
        self._surprises: list[float] = []
        self._at = -math.inf

    def fade(self, since: float, now: float) -> None:
        """Forget the speed of a device that has been idle since that time."""
        since = max(since, self._at)
        if now > since and self.level:
            self.level *= math.exp((since - now) / FADE_S)
            self.factor = math.exp(self.level)
            self.stamp += 1
            self._at = now

    def see(self, surprise: float) -> None:
        """Learn from log(actual / predicted) of a back-to-back chunk."""
        step = SPEED_GAIN * surprise
        if abs(surprise) <= JUMP or (self._surprises and self._surprises[0] * surprise < 0):
            self._surprises.clear()
        if abs(surprise) > JUMP:
            self._surprises.append(surprise)
            if len(self._surprises) == JUMP_LENGTH:
                step = sorted(self._surprises)[JUMP_LENGTH // 2]
                self._surprises.clear()
        self.level += step
        self.factor = math.exp(self.level)
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

    def see(self, took_over_one: float, speed: DeviceSpeed) -> None:
        """Learn from a back-to-back run: its time at batch 1."""
        surprise = _clipped(math.log(took_over_one / self.p50_s) - speed.level)
        self._spread = max(0.0, self._spread + SPREAD_GAIN * (0.9 if surprise > self._spread else -0.1))
        self._ratio += CHUNK_GAIN * surprise
        speed.see(surprise)
        self._apply()

    def see_spaced(self, took_over_one: float, speed: DeviceSpeed) -> None:
        """Learn from a run after a gap."""
        surprise = _clipped(math.log(took_over_one / self.spaced_s) - speed.level)
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

    def see(self, index: int, steps: int, batch: int, scale: float, took_s: float, *, spaced: bool) -> None:
        """Learn from a chunk that ended."""
        if took_s <= 0:
            return
        if steps:
            assert self.step is not None
            self._learn(self.step, took_s / (steps * self.costs.step_curve.at(batch)), spaced=spaced)
        else:
            self._learn(self.chunks[index], took_s / (scale * self.costs.curve.at(batch)), spaced=spaced)
            self._add_up(index)

    def _learn(self, chunk: ChunkEstimate, took_s: float, *, spaced: bool) -> None:
        if spaced:
            chunk.see_spaced(took_s, self.speed)
        else:
            chunk.see(took_s, self.speed)

    def chunk_s(self, index: int, steps: int, batch: int, scale: float, *, spaced: bool) -> float:
        """Current median time of a chunk."""
        chunk = self.step if steps else self.chunks[index]
        assert chunk is not None
        unscaled_s = (chunk.spaced_s if spaced else chunk.p50_s) * self.speed.factor
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
