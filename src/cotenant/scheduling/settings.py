"""Settings of the scheduler. Defaults were tuned on seeds other than the published ones."""

from dataclasses import dataclass

from cotenant.errors import SchedulingError
from cotenant.scheduling.contract import Fairness


@dataclass(frozen=True, slots=True)
class Settings:
    """How the scheduler of one device behaves; times in seconds."""

    fairness: Fairness = Fairness.SHARES
    slots: int = 1
    """Chunks the device runs at a time (parallel workers, partitions)."""
    queue_ahead: bool = True
    """Whether the worker holds the next chunk while one runs."""
    burst: float = 2.0
    """Burst a tenant may send within its share, in objectives of device time."""
    reserve: float = 1.5
    """Multiple of the expected conforming arrivals kept free when slack is given away."""
    margin: float = 0.1
    """Maximum reserve before a deadline when slack is given away, as a fraction of the objective."""
    memory_s: float = 2.0
    """Time constant of a tenant's recent demand and attainment."""
    quantum_s: float | None = None
    """Longest chunk assembled from smaller ones; None: half the tightest tenant's slack."""
    way_s: float = 0.0
    """Time reserved before a deadline for delivery to the client."""
    gap_s: float = 0.001
    """Idle time from which the next chunk counts as spaced."""
    backlog: float = 2.0
    """Maximum waiting work of a tenant beyond its share, in objectives of device time."""
    longest_retry_s: float = 60.0
    cache_bytes: int | None = None
    """Memory for the caches of decoders, shared like the device's time; None: unlimited."""
    log_every: int = 16
    """Every n-th decision is kept in the decision log; refusals always are."""
    log_length: int = 1024

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise SchedulingError(f"A device runs at least one chunk at a time, not {self.slots}.")
        if self.log_every < 1 or self.log_length < 1:
            raise SchedulingError("The decision log keeps at least one decision.")
        for name in ("burst", "reserve", "margin", "backlog", "gap_s", "way_s"):
            if getattr(self, name) < 0:
                raise SchedulingError(f"The setting {name} can't be negative.")
        if self.cache_bytes is not None and self.cache_bytes < 1:
            raise SchedulingError("The memory for caches has to be positive.")
        if self.memory_s <= 0:
            raise SchedulingError("The setting memory_s must be positive.")
