"""Costs of a tenant's requests: device time by chunk, after a gap and back to back, and by batch size."""

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from cotenant.errors import SchedulingError


@dataclass(frozen=True, slots=True)
class ChunkCost:
    """Device time of a chunk alone: ``p50_s`` and ``p90_s`` back to back, ``spaced_s`` the median after a gap."""

    p50_s: float
    p90_s: float
    spaced_s: float

    def __post_init__(self) -> None:
        if not 0 < self.p50_s < math.inf:
            raise SchedulingError(f"A chunk has to cost a positive time, not {self.p50_s:g} s.")
        if self.p90_s < self.p50_s:
            raise SchedulingError(f"A chunk's p90 ({self.p90_s:g} s) can't be below its p50 ({self.p50_s:g} s).")
        if self.spaced_s <= 0:
            raise SchedulingError(f"A chunk has to cost a positive time after a gap, not {self.spaced_s:g} s.")


def chunk_cost(p50_s: float, *, spread: float = 0.0, cold: float = 1.0) -> ChunkCost:
    """A chunk whose p90 is ``1 + spread`` and whose cost after a gap is ``cold`` times the median back to back."""
    return ChunkCost(p50_s, p50_s * (1 + spread), p50_s * cold)


def some_batches(largest: int) -> list[int]:
    """Batches to time for a curve: powers of two up to the largest, and that."""
    return sorted({largest, *(2**power for power in range(largest.bit_length()) if 2**power < largest)})


@dataclass(frozen=True, slots=True)
class BatchCurve:
    """``factors[b - 1]``: measured cost of a batch of b relative to a batch of 1; its length is the largest batch."""

    factors: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if not self.factors or self.factors[0] != 1.0:
            raise SchedulingError("A batch curve starts with 1, the cost of a batch of one.")
        if any(later < earlier for earlier, later in zip(self.factors, self.factors[1:], strict=False)):
            raise SchedulingError("A batch curve can't fall: a larger batch never costs less in all.")

    @classmethod
    def through(cls, times: Mapping[int, float]) -> Self:
        """The curve through the times of some batches, straight between them; ``times`` includes batch 1."""
        sizes = sorted(times)
        factors, most = [], 0.0
        for batch in range(1, sizes[-1] + 1):
            above = bisect_left(sizes, batch)
            left, right = sizes[max(above - 1, 0)], sizes[above]
            part = (batch - left) / (right - left) if right > left else 0.0
            most = max(most, (times[left] + part * (times[right] - times[left])) / times[1])
            factors.append(most)
        return cls(tuple(factors))

    @property
    def largest(self) -> int:
        """The largest measured batch."""
        return len(self.factors)

    def at(self, batch: int) -> float:
        """The factor of a batch; beyond the largest measured, full batches and the rest are added up."""
        if batch <= len(self.factors):
            return self.factors[batch - 1]
        full, rest = divmod(batch, len(self.factors))
        return full * self.factors[-1] + (self.factors[rest - 1] if rest else 0.0)


@dataclass(frozen=True, slots=True)
class TenantCosts:
    """The costs of a tenant.

    ``chunks``: the parts of a request in order (layer groups; for a decoder its prefill). ``step``: a decode step of
    a decoder, else None; its requests take ``steps`` of them unless they say otherwise.
    """

    chunks: tuple[ChunkCost, ...]
    curve: BatchCurve = BatchCurve()
    step: ChunkCost | None = None
    step_curve: BatchCurve = BatchCurve()
    steps: int = 0
    cache_bytes: int = 0
    """Memory that a typical request holds from its first chunk to its end."""

    def __post_init__(self) -> None:
        if not self.chunks:
            raise SchedulingError("A tenant's request has at least one chunk.")
        if self.step is None and self.steps:
            raise SchedulingError("Decode steps were stated without the cost of one.")
        if self.step is not None and self.steps < 1:
            raise SchedulingError("A decoder's request takes at least one decode step.")

    @property
    def total_s(self) -> float:
        """Median device time of a typical request, back to back."""
        return sum(chunk.p50_s for chunk in self.chunks) + (self.step.p50_s * self.steps if self.step else 0.0)

    def slower(self, factor: float) -> "TenantCosts":
        """The same on a device that is slower by this factor."""

        def slowed(chunk: ChunkCost) -> ChunkCost:
            return ChunkCost(chunk.p50_s * factor, chunk.p90_s * factor, chunk.spaced_s * factor)

        step = None if self.step is None else slowed(self.step)
        return replace(self, chunks=tuple(slowed(chunk) for chunk in self.chunks), step=step)

    @property
    def spaced_s(self) -> float:
        """Median device time of a typical request after a gap; its decode steps follow closely."""
        return sum(chunk.spaced_s for chunk in self.chunks) + (self.step.p50_s * self.steps if self.step else 0.0)
