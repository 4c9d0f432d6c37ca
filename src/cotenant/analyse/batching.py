"""Choose a batch size from measurements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cotenant.tenancy.interval import Estimate
from cotenant.text import percent

ENOUGH = 0.95
"""A batch that reaches this share of the best throughput is good enough: larger ones only add latency."""
HOST_STAGES = ("load_data", "data_to_device", "to_device")
"""Stages that feed the device."""
LOADER_BOUND = 0.5


@dataclass(frozen=True, slots=True)
class Impact:
    """Measurements of a batch size."""

    batch: int
    items_per_s: Estimate
    latency_ms: float
    """Mean latency of a request, from due to done."""
    stages_ms: Mapping[str, float] = field(default_factory=dict)
    """Mean time of each stage; they add up to the latency."""

    @property
    def feeding_share(self) -> float:
        """Share of a request during which the device only waits for its data."""
        total = sum(self.stages_ms.values())
        return sum(self.stages_ms.get(stage, 0.0) for stage in HOST_STAGES) / total if total else 0.0


@dataclass(frozen=True, slots=True)
class Advice:
    """The chosen batch size and the reason."""

    batch: int | None
    """None if no measured size qualifies."""
    reason: str


def advise(impacts: Sequence[Impact], *, latency_goal_ms: float | None = None, largest: int | None = None) -> Advice:
    """Choose a batch size.

    Args:
        impacts: The measured sizes, at least one.
        latency_goal_ms: The longest a request may take.
        largest: The largest batch that fits, if known.
    """
    fitting = [impact for impact in impacts if largest is None or impact.batch <= largest]
    quick = [impact for impact in fitting if latency_goal_ms is None or impact.latency_ms <= latency_goal_ms]
    if not quick:
        least = min(impacts, key=lambda impact: impact.latency_ms)
        return Advice(
            None,
            f"no size stays within {latency_goal_ms:g} ms: the quickest, {least.batch}, takes {least.latency_ms:.3g} ms"
            if fitting
            else "none of the sizes fits",
        )
    best = max(quick, key=lambda impact: impact.items_per_s.est)
    chosen = min(
        (impact for impact in quick if impact.items_per_s.est >= ENOUGH * best.items_per_s.est),
        key=lambda impact: impact.batch,
    )
    if (
        latency_goal_ms is not None
        and len(quick) < len(fitting)
        and chosen.batch == max(impact.batch for impact in quick)
    ):
        return Advice(chosen.batch, f"latency goal: larger sizes take more than {latency_goal_ms:g} ms")
    if chosen.feeding_share >= LOADER_BOUND:
        return Advice(
            chosen.batch,
            f"loader-bound: {percent(chosen.feeding_share)} of a request feeds the device, whatever the size",
        )
    if chosen.batch == max(impact.batch for impact in fitting):
        return Advice(chosen.batch, "not yet saturated: throughput still grows at the largest size measured")
    gain = percent(best.items_per_s.est / chosen.items_per_s.est - 1)
    return Advice(
        chosen.batch,
        f"device-bound: larger sizes give at most {gain} more items per second, and take longer each",
    )
