"""Tenants to place: requests at a rate within objectives, and jobs that run beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Metric = Literal["latency", "ttft", "tpot"]
METRICS: tuple[Metric, ...] = ("latency", "ttft", "tpot")
"""Time of a complete request; until its first output; per output after that."""
Isolation = Literal["any", "process", "mig"]
"""Required isolation: none; its own process; its own MIG instance."""


@dataclass(frozen=True, slots=True)
class Objective:
    """An objective: this quantile of request times is within this limit."""

    metric: Metric
    quantile: float
    limit_ms: float

    @property
    def label(self) -> str:
        """`p99`, `ttft p95`."""
        quantile = f"p{self.quantile * 100:g}"
        return quantile if self.metric == "latency" else f"{self.metric} {quantile}"


@dataclass(frozen=True, slots=True)
class BatchJob:
    """A job: work with an end instead of a rate."""

    gpus: int
    seconds: float
    """Duration alone on a device."""
    stretch: float
    """Largest allowed ratio to that duration."""


@dataclass(frozen=True, slots=True)
class ServingTenant:
    """One tenant and its requirements."""

    name: str
    rate_rps: float
    """Items per second; 0 for a job."""
    objectives: tuple[Objective, ...] = ()
    cv: float = 1.0
    """Burstiness of its arrivals; 1 is Poisson."""
    batches: tuple[int, ...] = (1,)
    software: str = "eager"
    on_kinds: Mapping[str, str] = field(default_factory=dict)
    """By kind of device: the best software there, where there is a choice."""
    share: float | None = None
    """Required percentage of the device; None if any will do."""
    priority: int = 0
    isolation: Isolation = "any"
    near: frozenset[str] = frozenset()
    """Tenants that must be on the same device."""
    apart: frozenset[str] = frozenset()
    """Tenants that must be on other devices."""
    replicas: int | None = None
    """None: as many as its rate needs."""
    job: BatchJob | None = None
    parallel: int = 1
    """Devices that every replica is split over (tensor parallelism), whatever their kind."""
    spans: Mapping[str, int] = field(default_factory=dict)
    """By kind of device: the number of them that a replica is split over, where one is not enough."""

    def devices_on(self, kind: str) -> int:
        """Devices that a replica occupies; more than one are its own."""
        return self.job.gpus if self.job else self.spans.get(kind, self.parallel)

    def software_on(self, kind: str) -> str:
        """Its software on a kind of device."""
        return self.on_kinds.get(kind, self.software)


@dataclass(frozen=True, slots=True)
class Seat:
    """One replica of a tenant."""

    tenant: int
    rate_rps: float
    replica: int = 0
    of: int = 1


@dataclass(frozen=True, slots=True)
class Unit:
    """Seats that must stay together: one, or those of tenants joined by `near`."""

    seats: tuple[Seat, ...]


def units_of(tenants: Sequence[ServingTenant], replicas: Sequence[int]) -> tuple[Unit, ...]:
    """One unit per replica; tenants joined by `near` share one."""
    together = _joined(tenants)
    units: list[Unit] = []
    for members in together:
        count = max(replicas[tenant] for tenant in members)
        units += [
            Unit(
                tuple(
                    Seat(tenant, tenants[tenant].rate_rps / replicas[tenant], number, replicas[tenant])
                    for tenant in members
                    if number < replicas[tenant]
                )
            )
            for number in range(count)
        ]
    return tuple(units)


def contradictions(tenants: Sequence[ServingTenant]) -> list[tuple[str, str]]:
    """Contradictory constraints, by tenant."""
    known = {tenant.name: tenant for tenant in tenants}
    found: list[tuple[str, str]] = []
    for members in _joined(tenants):
        names = [tenants[member].name for member in members]
        for name in names:
            clash = sorted(known[name].apart & set(names) - {name})
            if clash:
                found.append((name, f"must be near {_others(names, name)} and apart from {clash[0]}"))
        split = [name for name in names if known[name].isolation == "mig"]
        if split and len(names) > 1:
            found.append(
                (split[0], f"wants a MIG instance of its own and {_others(names, split[0])} on the same device")
            )
    return found


def _others(names: Sequence[str], but: str) -> str:
    return " and ".join(name for name in names if name != but)


def _joined(tenants: Sequence[ServingTenant]) -> list[tuple[int, ...]]:
    """Tenants that must share a device, grouped by `near`; the others alone."""
    number = {tenant.name: place for place, tenant in enumerate(tenants)}
    group = list(range(len(tenants)))
    for place, tenant in enumerate(tenants):
        for name in tenant.near:
            if name in number:
                old, new = group[number[name]], group[place]
                group = [new if one == old else one for one in group]
    return [tuple(member for member, one in enumerate(group) if one == root) for root in dict.fromkeys(group)]
