"""A plan: which tenants go on which device, how they share it, and what that is predicted to give. Plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

HOURS_PER_MONTH = 730.0


@dataclass(frozen=True, slots=True)
class Kept:
    """An objective and what is predicted for it."""

    objective: str
    """`p99`, `ttft p95`."""
    limit_ms: float
    lower_ms: float
    estimate_ms: float
    upper_ms: float

    @property
    def headroom(self) -> float:
        """Of the limit, what the upper end leaves; negative: it misses."""
        return 1 - self.upper_ms / self.limit_ms


@dataclass(frozen=True, slots=True)
class SeatedTenant:
    """One tenant (or one replica of it) on its device."""

    tenant: str
    replica: int
    replicas: int
    rate_rps: float
    batch: int
    software: str
    share: float | str | None
    """Percent of the device, or a MIG profile; None: it isn't held to any."""
    priority: int
    memory_bytes: int
    slowdown: tuple[float, float, float]
    """Lower, estimate, upper."""
    kept: tuple[Kept, ...]
    cv: float = 1.0
    """Burstiness of its arrivals."""
    isolated: bool = False
    """It asks for a process or a part of the device of its own."""
    holds_to: float | None = None
    """Everyone on the device keeps their objectives up to this many times the tenant's rate."""

    @property
    def name(self) -> str:
        """The tenant's, with the number of the replica where there are several."""
        return self.tenant if self.replicas == 1 else f"{self.tenant}-{self.replica}"


@dataclass(frozen=True, slots=True)
class PlannedDevice:
    """One device (or several that one tenant needs together)."""

    name: str
    kind: str
    title: str
    sharing: str
    """`alone` where there is nobody to share with."""
    tenants: tuple[SeatedTenant, ...]
    devices: int
    price_per_h: float
    memory_bytes: int
    busy: float
    bandwidth: float
    power_w: float
    basis: str
    clock_mhz: float | None = None
    """Held to this clock; None: as fast as it likes."""
    power_limit_w: float | None = None
    """What it draws at that clock at most."""

    @property
    def simulated(self) -> bool:
        """What is predicted for it comes from the simulation."""
        return self.kind.startswith("sim:")

    @property
    def used_bytes(self) -> int:
        """Of its memory."""
        return sum(tenant.memory_bytes for tenant in self.tenants)

    @property
    def tightest(self) -> tuple[SeatedTenant, Kept] | None:
        """The objective with the least headroom."""
        pairs = [(tenant, kept) for tenant in self.tenants for kept in tenant.kept]
        return min(pairs, key=lambda pair: pair[1].headroom, default=None)


@dataclass(frozen=True, slots=True)
class Rejected:
    """A cheaper alternative and why it isn't the plan."""

    tenants: tuple[str, ...]
    kind: str
    sharing: str
    reason: str
    saves_per_h: float
    undecided: bool
    """The estimate keeps every objective and only the upper end doesn't: a measurement may settle it."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The one measurement that could change the plan."""

    tenants: tuple[str, ...]
    kind: str
    sharing: str
    would: str
    """What it could change."""
    command: str = ""
    """That carries it out."""


@dataclass(frozen=True, slots=True)
class ServingPlan:
    """Who goes where at what cost, how good that is, and why."""

    minimised: str
    devices: tuple[PlannedDevice, ...]
    left_out: tuple[str, ...]
    cost_per_h: float
    value: float
    """Of what was minimised: dollars per hour, watts, or latencies over their limits."""
    bound: float
    """No plan does better, of what was minimised."""
    proof: str
    risk: float
    prices: tuple[str, ...]
    """Whose prices, by kind."""
    binding: str = ""
    """What keeps the plan from being cheaper."""
    cheaper: str = ""
    """What the next cheaper plan would break."""
    rejected: tuple[Rejected, ...] = ()
    measure: Measurement | None = None

    @property
    def gap(self) -> float | None:
        """How far the value may be above the least possible; None: unknown."""
        if self.value <= self.bound:
            return 0.0
        return (self.value - self.bound) / self.bound if self.bound > 0 else None

    @property
    def cost_per_month(self) -> float:
        """Of 730 hours."""
        return self.cost_per_h * HOURS_PER_MONTH

    @property
    def keeps_all(self) -> bool:
        """Every tenant has a place and every objective is kept."""
        seats = [tenant for device in self.devices for tenant in device.tenants]
        return not self.left_out and all(kept.headroom >= 0 for tenant in seats for kept in tenant.kept)


def to_document(
    plan: ServingPlan, runs: Mapping[str, Mapping[str, Any]] | None = None, rests_on: Sequence[str] = ()
) -> dict[str, Any]:
    """What plan.yaml holds: enough to carry the plan out, and what was expected of it.

    Args:
        plan: The plan.
        runs: By tenant, what it runs, in the words of the tenants file.
        rests_on: Run folders whose measurements were used.
    """
    return {
        "plan": 1,
        "minimised": plan.minimised,
        "cost_per_h": _rounded(plan.cost_per_h),
        "bound": _rounded(plan.bound),
        "risk": plan.risk,
        **({"from": list(rests_on)} if rests_on else {}),
        "devices": [_device(device, runs or {}) for device in plan.devices],
        **({"left_out": list(plan.left_out)} if plan.left_out else {}),
    }


def _device(device: PlannedDevice, runs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "name": device.name,
        "kind": device.kind,
        "sharing": device.sharing,
        **({"devices": device.devices} if device.devices > 1 else {}),
        **({"clock_mhz": _rounded(device.clock_mhz)} if device.clock_mhz else {}),
        **({"power_w": _rounded(device.power_limit_w)} if device.power_limit_w else {}),
        "price_per_h": _rounded(device.price_per_h),
        "basis": device.basis,
        "tenants": {tenant.name: _tenant(tenant, runs.get(tenant.tenant)) for tenant in device.tenants},
    }


def _tenant(tenant: SeatedTenant, runs: Mapping[str, Any] | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"tenant": tenant.tenant, "rate_rps": _rounded(tenant.rate_rps), "batch": tenant.batch}
    if runs is not None:
        entry["runs"] = dict(runs)
    if tenant.cv != 1:
        entry["cv"] = tenant.cv
    entry["software"] = tenant.software
    if tenant.share is not None:
        entry["share"] = tenant.share
    if tenant.priority:
        entry["priority"] = tenant.priority
    entry["memory_bytes"] = tenant.memory_bytes
    entry["slowdown"] = _rounded(tenant.slowdown[1])
    entry["expected"] = {
        kept.objective: {
            "limit_ms": _rounded(kept.limit_ms),
            "lower_ms": _rounded(kept.lower_ms),
            "estimate_ms": _rounded(kept.estimate_ms),
            "upper_ms": _rounded(kept.upper_ms),
        }
        for kept in tenant.kept
    }
    return entry


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
