"""Sources of each metric in order of preference, the one chosen, and why better ones were not."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rung:
    """One source of a metric."""

    source: str
    worth: str
    """One clause: what it captures, and what it misses."""


@dataclass(frozen=True, slots=True)
class SourceChoice:
    """The source chosen for a metric, and better ones that were unavailable."""

    metric: str
    rung: Rung | None
    """None: no source has this metric here."""
    missed: Mapping[str, str]
    """Why, by source."""

    @property
    def sentence(self) -> str:
        """For the doctor and the manifest."""
        why = "; ".join(f"not from {source}: {reason}" for source, reason in self.missed.items())
        took = f"{self.metric} from {self.rung.source} ({self.rung.worth})" if self.rung else f"no {self.metric}"
        return f"{took}; {why}" if why else took


LADDERS: Mapping[str, tuple[Rung, ...]] = {
    "energy": (
        Rung("NVML energy counter", "counts every update; reset when the driver is reloaded"),
        Rung("NVML power, instant", "integrated; blind between windows"),
        Rung("NVML power, average", "integrated; lags by a second"),
        Rung("NVML power usage", "integrated; instantaneous or a one-second average, by architecture and driver"),
    ),
    "power": (
        Rung("NVML power, instant", "field 186: the shortest window there is"),
        Rung("NVML power usage", "instantaneous on GA100 and older, a one-second average on others"),
    ),
    "activity": (
        Rung("NVML GPM", "SM, tensor core and DRAM activity, Hopper and newer"),
        Rung("DCGM", "SM, tensor core and DRAM activity, Volta and newer, needs its host engine"),
        Rung("NVML utilisation", "only whether any kernel ran, not how many SMs it used"),
    ),
    "throttling": (
        Rung("NVML throttle counters", "nanoseconds held back, by reason; complete"),
        Rung("NVML event reasons", "the reasons at each reading; misses shorter events"),
    ),
    "PCIe traffic": (
        Rung("NVML GPM", "rate between two readings"),
        Rung("DCGM", "rate over its period, needs its host engine"),
        Rung("NVML PCIe throughput", "20 ms out of every reading period"),
    ),
}


def choose(metric: str, unavailable: Mapping[str, str]) -> SourceChoice:
    """Return the best source not known to be unavailable.

    Args:
        metric: A key of `LADDERS`.
        unavailable: Why a source is unavailable, by source.
    """
    missed: dict[str, str] = {}
    for rung in LADDERS[metric]:
        if rung.source not in unavailable:
            return SourceChoice(metric, rung, missed)
        missed[rung.source] = unavailable[rung.source]
    return SourceChoice(metric, None, missed)
