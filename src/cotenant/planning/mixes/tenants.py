"""Tenants to place: requests at a rate within objectives, and jobs that run beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cotenant.scheduling import Contract
from cotenant.tenancy.objective import Objective, contract_of
from cotenant.tenancy.tenant_entry import Isolation, TenantEntry
from cotenant.tenancy.ways import SERVED_SOFTWARE
from cotenant.tenancy.words import did_you_mean, shown

STRETCH = 2.0
"""Default deadline of a job: this many times its duration."""


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
    """A tenant and its requirements."""

    name: str
    rate_rps: float
    """Requests per second; 0 for a job."""
    objectives: tuple[Objective, ...] = ()
    cv: float = 1.0
    """Burstiness of its arrivals; 1 is Poisson."""
    batches: tuple[int, ...] = (1,)
    """Numbers of requests that its software may execute together."""
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
    hard: bool = True
    """A server refuses its requests that can't be in time."""
    best_effort: bool = False
    """A server gives it no share of the device's time."""
    job: BatchJob | None = None
    parallel: int = 1
    """Devices that every replica is split over (tensor parallelism), whatever their kind."""
    spans: Mapping[str, int] = field(default_factory=dict)
    """By kind of device: the number of them that a replica is split over, where a single device is too small."""

    def devices_on(self, kind: str) -> int:
        """Devices that a replica occupies; if several, exclusively."""
        return self.job.gpus if self.job else self.spans.get(kind, self.parallel)

    def software_on(self, kind: str) -> str:
        """Its software on a kind of device."""
        return self.on_kinds.get(kind, self.software)

    @property
    def contract(self) -> Contract:
        """As the server that carries out the plan will have it. Raises ValueError if it can't."""
        return contract_of(self.name, self.objectives, share=self.share, hard=self.hard, best_effort=self.best_effort)

    def can_take_turns(self, kind: str) -> bool:
        """Whether a server can order its requests among others': it has a deadline, and workers that can run it."""
        if self.job is not None or self.isolation != "any" or self.software_on(kind) not in SERVED_SOFTWARE:
            return False
        try:
            return self.contract is not None
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class UnitSeat:
    """A replica of a tenant."""

    tenant: int
    rate_rps: float
    replica: int = 0
    of: int = 1


@dataclass(frozen=True, slots=True)
class Unit:
    """Seats that must stay together: a single seat, or those of tenants joined by `near`."""

    seats: tuple[UnitSeat, ...]


def units_of(tenants: Sequence[ServingTenant], replicas: Sequence[int]) -> tuple[Unit, ...]:
    """A unit per replica, shared by tenants joined by `near`."""
    together = _joined(tenants)
    units: list[Unit] = []
    for members in together:
        count = max(replicas[tenant] for tenant in members)
        units += [
            Unit(
                tuple(
                    UnitSeat(tenant, tenants[tenant].rate_rps / replicas[tenant], number, replicas[tenant])
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
    problems: list[tuple[str, str]] = []
    for members in _joined(tenants):
        names = [tenants[member].name for member in members]
        for name in names:
            clash = sorted(known[name].apart & set(names) - {name})
            if clash:
                problems.append((name, f"must be near {_others(names, name)} and apart from {clash[0]}"))
        split = [name for name in names if known[name].isolation == "mig"]
        if split and len(names) > 1:
            problems.append(
                (split[0], f"wants a MIG instance of its own and {_others(names, split[0])} on the same device")
            )
    return problems


def _others(names: Sequence[str], but: str) -> str:
    return " and ".join(name for name in names if name != but)


def _joined(tenants: Sequence[ServingTenant]) -> list[tuple[int, ...]]:
    """Tenants that must share a device, grouped by `near`; the others alone."""
    number = {tenant.name: index for index, tenant in enumerate(tenants)}
    group = list(range(len(tenants)))
    for index, tenant in enumerate(tenants):
        for name in tenant.near:
            if name in number:
                old, new = group[number[name]], group[index]
                group = [new if label == old else label for label in group]
    return [tuple(member for member, label in enumerate(group) if label == root) for root in dict.fromkeys(group)]


def planned(tenants: Mapping[str, TenantEntry]) -> tuple[ServingTenant, ...]:
    """The tenants of a file, in planning's terms."""
    return tuple(_planned(name, entry) for name, entry in tenants.items())


def _planned(name: str, entry: TenantEntry) -> ServingTenant:
    job = None
    if entry.job is not None:
        stretch = entry.job.within / entry.job.time if entry.job.within else STRETCH
        job = BatchJob(entry.job.gpus, entry.job.time, stretch)
    return ServingTenant(
        name=name,
        rate_rps=entry.load.rate_rps or 0.0 if entry.load else 0.0,
        objectives=entry.slo,
        cv=entry.load.cv if entry.load else 1.0,
        batches=entry.choices_at_once if entry.workload else (1,),
        software=entry.software[0] if entry.software else "eager",
        share=entry.share if isinstance(entry.share, float) else None,
        priority=entry.priority,
        isolation=entry.isolation,
        near=frozenset(entry.near),
        apart=frozenset(entry.apart),
        replicas=entry.replicas,
        hard=entry.hard,
        best_effort=entry.best_effort,
        job=job,
        parallel=entry.parallel,
    )


def lacking(tenants: Mapping[str, TenantEntry]) -> list[tuple[tuple[str | int, ...], str]]:
    """What planning needs and a file lacks, by key."""
    problems: list[tuple[tuple[str | int, ...], str]] = []
    for name, entry in tenants.items():
        problems += [(("tenants", name, *key), sentence) for key, sentence in _lacking(entry)]
        for key in ("near", "apart"):
            for other in getattr(entry, key):
                if other not in tenants:
                    near = did_you_mean(other, tenants)
                    problems.append((("tenants", name, key), f"there is no tenant {shown(other)}{near}"))
    problems += [(("tenants", name), sentence) for name, sentence in contradictions(planned(tenants))]
    return problems


def _lacking(entry: TenantEntry) -> list[tuple[tuple[str, ...], str]]:
    problems: list[tuple[tuple[str, ...], str]] = []
    if entry.workload is None and entry.job is not None:
        return [((), "needs a workload: without one a job can be placed only on the GPUs of the database")]
    if entry.workload is None:
        return [((), "needs a workload: what only has a backend can be served, not planned for")]
    if entry.load is None and entry.job is None:
        problems.append(((), "a plan needs a rate such as rate: 20/s, a load with a rate, or a job"))
    if entry.load is not None and (not entry.load.open or entry.load.rate_rps is None):
        always = ", or job: {time: 1h} for work that is always busy" if not entry.load.open else ""
        sentence = f"{entry.load} has no rate to plan for; write rate: 20/s, poisson(20) or gamma(20, 2){always}"
        problems.append((("load",), sentence))
    if not entry.has_tokens and any(objective.metric != "latency" for objective in entry.slo):
        problems.append(((), "ttft and tpot are times of generated tokens: add mode: generate"))
    return problems
