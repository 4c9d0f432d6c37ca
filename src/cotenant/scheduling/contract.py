"""The contract of each tenant: an objective, a share of the device, and the handling of late requests."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from cotenant.errors import SchedulingError


class Fairness(StrEnum):
    """A rule for all tenants of a device."""

    SHARES = "shares"
    """A tenant within its share meets its objective, whatever the others send."""
    EQUAL = "equal"
    """All tenants attain their objectives equally often; a flood costs all of them."""


class ServiceClass(StrEnum):
    """Whether a tenant has a share of the device."""

    GUARANTEED = "guaranteed"
    BEST_EFFORT = "best-effort"


@dataclass(frozen=True, slots=True)
class Contract:
    """The contract with a tenant.

    A request is due ``objective_s`` after it arrives; a decoder's may have ``per_step_s`` more for each decode step, so
    that a time to first token and a time per token make a deadline. ``hard``: a request that can no longer meet its
    deadline is shed. Otherwise (soft) it is served late, in time that would be idle, until ``patience`` objectives have
    passed.
    """

    tenant: str
    objective_s: float
    share: float | None = None
    hard: bool = True
    service: ServiceClass = ServiceClass.GUARANTEED
    patience: float = 10.0
    per_step_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.tenant:
            raise SchedulingError("A contract needs the name of its tenant.")
        if not 0 < self.objective_s < float("inf"):
            raise SchedulingError(
                f"Tenant {self.tenant}: the objective must be a positive time, not {self.objective_s:g} s.",
                hint="State how long a request may take, for example 0.03 for 30 ms.",
            )
        if self.share is not None and not 0 <= self.share <= 1:
            raise SchedulingError(
                f"Tenant {self.tenant}: the share has to lie between 0 and 1, not {self.share:g}.",
                hint="A share is a part of the device's time; leave it out for an equal part.",
            )
        if self.share and self.service is ServiceClass.BEST_EFFORT:
            raise SchedulingError(
                f"Tenant {self.tenant}: a best-effort tenant can't have a share.",
                hint="Leave the share out, or make the tenant guaranteed.",
            )
        if self.per_step_s < 0:
            raise SchedulingError(
                f"Tenant {self.tenant}: the time per decode step can't be negative, not {self.per_step_s:g} s."
            )
        if self.patience < 1:
            raise SchedulingError(
                f"Tenant {self.tenant}: patience is counted in objectives and can't be below 1, not {self.patience:g}."
            )

    def within_s(self, steps: int) -> float:
        """How long a request with this number of decode steps may take."""
        return self.objective_s + self.per_step_s * steps


def settle_shares(contracts: Iterable[Contract]) -> Mapping[str, float]:
    """The share of each tenant: as stated; what is left is split equally among guaranteed tenants that state none."""
    by_name: dict[str, Contract] = {}
    for contract in contracts:
        if contract.tenant in by_name:
            raise SchedulingError(f"Tenant {contract.tenant} has two contracts.", hint="Give each tenant its own name.")
        by_name[contract.tenant] = contract
    stated = sum(contract.share or 0.0 for contract in by_name.values())
    if stated > 1 + 1e-9:
        raise SchedulingError(
            f"The shares of {', '.join(by_name)} add up to {stated:.2f} of the device.",
            hint="Lower them until they add up to at most 1.",
        )
    open_to = [c for c in by_name.values() if c.share is None and c.service is ServiceClass.GUARANTEED]
    if open_to and stated > 1 - 1e-9:
        raise SchedulingError(
            f"The stated shares leave nothing for {open_to[0].tenant}.",
            hint="Lower the stated shares, or make the tenant best-effort.",
        )
    each = (1 - stated) / len(open_to) if open_to else 0.0
    return {name: (each if contract in open_to else (contract.share or 0.0)) for name, contract in by_name.items()}


# --- settings of the scheduler. Defaults were tuned on seeds other than the published ones


@dataclass(frozen=True, slots=True)
class Settings:
    """How the scheduler of a device behaves; times in seconds."""

    fairness: Fairness = Fairness.SHARES
    slots: int = 1
    """Chunks the device runs at a time (parallel workers, partitions)."""
    queue_ahead: bool = True
    """Whether the worker holds the next chunk while another runs."""
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
