"""A plan: which tenants go on which device, how they share it, and the predicted outcome. Plain values."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from cotenant.errors import StudyError
from cotenant.planning.mixes.kinds import DeviceKind
from cotenant.tenancy.device_names import DeviceName
from cotenant.tenancy.interval import Interval
from cotenant.tenancy.plan_document import (
    REPLAN,
    VERSION,
    PlanDevice,
    PlanDocument,
    PlanSeat,
    PromisedTime,
)
from cotenant.tenancy.tenant_entry import TenantEntry
from cotenant.tenancy.validation_errors import problems_of
from cotenant.tenancy.ways import ALONE
from cotenant.tenancy.words import key_shown
from cotenant.text import duration, together

HOURS_PER_MONTH = 730.0


@dataclass(frozen=True, slots=True)
class KeptObjective:
    """An objective and its prediction."""

    objective: str
    """`p99`, `ttft p95`."""
    limit_ms: float
    time_ms: Interval

    @property
    def headroom(self) -> float:
        """Fraction of the limit left at the upper end; negative if missed."""
        return 1 - self.time_ms.ends[1] / self.limit_ms


@dataclass(frozen=True, slots=True)
class SeatedTenant:
    """A tenant or replica on a device."""

    tenant: str
    replica: int
    replicas: int
    rate_rps: float
    at_once: int
    """The most requests that its software executes together."""
    software: str
    share: float | str | None
    """Percentage of the device, or a MIG profile; None if unrestricted."""
    priority: int
    memory_bytes: int
    slowdown: Interval
    kept: tuple[KeptObjective, ...]
    cv: float = 1.0
    """Burstiness of its arrivals."""
    isolated: bool = False
    """It requires its own process or its own part of the device."""
    together: int | None = None
    """Requests that usually run together, if the server batches what waits; None if every batch fills up."""
    doubt: str = ""
    """What of its prediction was never validated; empty if all of it was."""
    ends_s: Interval | None = None
    """When a job ends, counted from its start; None for what has a rate."""
    due_s: float | None = None
    """When it has to."""
    holds_to: float | None = None
    """All tenants on the device meet their objectives up to this multiple of the tenant's rate."""

    @property
    def name(self) -> str:
        """The tenant's name, with the replica's number if there are several."""
        return self.tenant if self.replicas == 1 else f"{self.tenant}-{self.replica}"


@dataclass(frozen=True, slots=True)
class PlannedDevice:
    """A device, or several that a tenant spans."""

    name: str
    kind: str
    title: str
    sharing: str
    """`alone` for a single tenant."""
    tenants: tuple[SeatedTenant, ...]
    devices: int
    price_per_h: float
    memory_bytes: int
    busy: float
    bandwidth: float
    power_w: float
    """Of all its devices; memory, compute and bandwidth are per device."""
    basis: str
    clock_mhz: float | None = None
    """Fixed clock; None if unrestricted."""
    power_limit_w: float | None = None
    """Maximum power at that clock."""

    @property
    def simulated(self) -> bool:
        """Its predictions come from the simulation."""
        return DeviceName(self.kind).simulated

    @property
    def used_bytes(self) -> int:
        """Of its memory."""
        return sum(tenant.memory_bytes for tenant in self.tenants)

    @property
    def tightest(self) -> tuple[SeatedTenant, KeptObjective] | None:
        """The objective with the least headroom."""
        pairs = [(tenant, kept) for tenant in self.tenants for kept in tenant.kept]
        return min(pairs, key=lambda pair: pair[1].headroom, default=None)


@dataclass(frozen=True, slots=True)
class Rejected:
    """A cheaper alternative and the reason it was rejected."""

    tenants: tuple[str, ...]
    kind: str
    sharing: str
    reason: str
    saves_per_h: float
    undecided: bool
    """The estimate meets every objective and only the upper end misses: a measurement may settle it."""

    @property
    def saving(self) -> str:
        """`$1.79/h`; without prices it is a device."""
        return f"${self.saves_per_h:.2f}/h" if self.saves_per_h else "a device"


MAY_FIT = "its estimate meets every objective, its upper end doesn't"


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measurement most likely to change the plan."""

    tenants: tuple[str, ...]
    kind: str
    sharing: str
    would: str
    """Its possible effect."""
    replicas: int = 1
    """A single tenant is measured at its rate divided by these."""
    minutes: int | None = None
    command: str = ""
    """Takes at most `minutes`."""

    @property
    def sentence(self) -> str:
        """`measure next, at most 4 min: bert + gpt under mps on sim:t4: could save $1.79/h`."""
        takes = "" if self.minutes is None else f", at most {duration(60 * self.minutes)}"
        way = ALONE if self.sharing == ALONE else f"under {self.sharing}"
        return f"measure next{takes}: {together(self.tenants)} {way} on {self.kind}: {self.would}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A tenant that is left out."""

    tenant: str
    reason: str
    """What fails on the best device, and by how much."""
    change: str = ""
    """The single change that admits it; empty if none was found."""
    command: str = ""
    """The command that plans with it."""
    measure: Measurement | None = None
    """What may show that it fits without a change."""


@dataclass(frozen=True, slots=True)
class ServingPlan:
    """Placement, cost, quality and rationale."""

    minimised: str
    devices: tuple[PlannedDevice, ...]
    left_out: tuple[str, ...]
    cost_per_h: float
    value: float
    """The quantity minimised: dollars per hour, devices, watts, or latencies relative to their limits."""
    bound: float
    """Lower bound on that quantity."""
    proof: str
    risk: float
    prices: tuple[str, ...]
    """Sources of prices, by kind."""
    binding: str = ""
    """What keeps the plan from being cheaper."""
    cheaper: str = ""
    """The objective that the next cheaper plan would break."""
    rejected: tuple[Rejected, ...] = ()
    measure: Measurement | None = None
    refusals: tuple[Refusal, ...] = ()
    """Why tenants are left out, and what would admit them."""

    @property
    def gap(self) -> float | None:
        """How far the value may be above the optimum; None if unknown."""
        if self.value <= self.bound:
            return 0.0
        return (self.value - self.bound) / self.bound if self.bound > 0 else None

    @property
    def cost_per_month(self) -> float:
        """Of 730 hours."""
        return self.cost_per_h * HOURS_PER_MONTH

    @property
    def keeps_all(self) -> bool:
        """Whether every tenant is placed and every objective met."""
        seats = [tenant for device in self.devices for tenant in device.tenants]
        return not self.left_out and all(kept.headroom >= 0 for tenant in seats for kept in tenant.kept)


def document_of(plan: ServingPlan, runs: Mapping[str, Mapping[str, Any]], rests_on: Sequence[str] = ()) -> PlanDocument:
    """The plan for its file.

    Args:
        plan: The plan.
        runs: What each tenant runs: its keys of the tenants file that say so.
        rests_on: Run folders whose measurements were used.

    Raises:
        StudyError: The plan has names or values that a file can't hold.
    """
    try:
        return _document(plan, runs, rests_on)
    except ValidationError as error:
        problems = tuple(
            f"{key_shown(str(path[-1]))}: {sentence}" if path else sentence
            for path, sentence in problems_of(error, PlanDocument)
        )
        raise StudyError("the plan can't be written", problems=problems, hint="rename what it names") from None


def _document(plan: ServingPlan, runs: Mapping[str, Mapping[str, Any]], rests_on: Sequence[str]) -> PlanDocument:
    data = {
        "plan": VERSION,
        "minimised": plan.minimised,
        "cost_per_h": _rounded(plan.cost_per_h),
        "bound": _rounded(plan.bound),
        "risk": plan.risk,
        "from": tuple(rests_on),
        "devices": tuple(_device(device, runs) for device in plan.devices),
        "left_out": plan.left_out,
    }
    return PlanDocument.model_validate(data)


def _device(device: PlannedDevice, runs: Mapping[str, Mapping[str, Any]]) -> PlanDevice:
    return PlanDevice(
        name=device.name,
        kind=device.kind,
        sharing=device.sharing,
        devices=device.devices,
        clock_mhz=_rounded(device.clock_mhz) if device.clock_mhz else None,
        power_w=_rounded(device.power_limit_w) if device.power_limit_w else None,
        price_per_h=_rounded(device.price_per_h),
        basis=device.basis,
        tenants={tenant.name: _seat(tenant, _split(device, tenant, runs)) for tenant in device.tenants},
    )


def _split(device: PlannedDevice, tenant: SeatedTenant, runs: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """What a tenant runs, split over the devices that the plan gives it; a job splits itself."""
    own = runs[tenant.tenant]
    return own if device.devices == 1 or not tenant.rate_rps else {**own, "parallel": device.devices}


def _seat(tenant: SeatedTenant, runs: Mapping[str, Any]) -> PlanSeat:
    return PlanSeat(
        tenant=tenant.tenant,
        rate_rps=_rounded(tenant.rate_rps),
        at_once=tenant.at_once,
        together=tenant.together,
        runs=TenantEntry.model_validate(runs),
        cv=tenant.cv,
        software=tenant.software,  # type: ignore[arg-type] # checked by the model
        share=tenant.share,
        priority=tenant.priority,
        isolated=tenant.isolated,
        memory_bytes=tenant.memory_bytes,
        slowdown=_rounded(tenant.slowdown.est),
        expected={
            kept.objective: PromisedTime(
                limit_ms=_rounded(kept.limit_ms),
                lower_ms=_rounded(kept.time_ms.ends[0]),
                estimate_ms=_rounded(kept.time_ms.est),
                upper_ms=_rounded(kept.time_ms.ends[1]),
            )
            for kept in tenant.kept
        },
        not_validated=tenant.doubt or None,
    )


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


# --- a plan that was written to a file, as it was written or edited by hand


def from_document(plan: PlanDocument, kinds: Mapping[str, DeviceKind], source: str) -> ServingPlan:
    """The plan as far as it can be carried out: without alternatives and reasons, which the file doesn't hold.

    Args:
        plan: The plan.
        kinds: By name, those that the plan uses.
        source: The file's name, for messages.

    Raises:
        StudyError: A tenant's memory is missing.
    """
    copies = Counter(str(seat.tenant) for _, _, seat in plan.seats())
    numbers: Counter[str] = Counter()
    devices = []
    for device in plan.devices:
        seats = []
        for name, seat in device.tenants.items():
            tenant = str(seat.tenant)
            if seat.memory_bytes is None:
                raise StudyError(f"{source}: {name} has no memory_bytes", hint=REPLAN)
            seats.append(_seated(seat, seat.memory_bytes, numbers[tenant], copies[tenant]))
            numbers[tenant] += 1
        devices.append(_planned_device(device, tuple(seats), kinds[device.kind]))
    cost = plan.cost_per_h or sum(device.price_per_h for device in devices)
    return ServingPlan(
        minimised=plan.minimised,
        devices=tuple(devices),
        left_out=plan.left_out,
        cost_per_h=cost,
        value=cost,
        bound=plan.bound,
        proof=f"as written in {source}",
        risk=plan.risk,
        prices=(),
    )


def _planned_device(device: PlanDevice, seats: tuple[SeatedTenant, ...], kind: DeviceKind) -> PlannedDevice:
    unknown = float("nan")  # the file holds what to do, not how busy it will be
    return PlannedDevice(
        name=device.name,
        kind=kind.name,
        title=kind.title,
        sharing=device.sharing,
        tenants=seats,
        devices=device.devices,
        price_per_h=device.price_per_h,
        memory_bytes=kind.memory_bytes,
        busy=unknown,
        bandwidth=unknown,
        power_w=unknown,
        basis=device.basis,
        clock_mhz=device.clock_mhz,
        power_limit_w=device.power_w,
    )


def _seated(seat: PlanSeat, memory_bytes: int, replica: int, replicas: int) -> SeatedTenant:
    return SeatedTenant(
        tenant=str(seat.tenant),
        replica=replica,
        replicas=replicas,
        rate_rps=seat.rate_rps,
        at_once=seat.at_once,
        software=seat.software,
        share=seat.share,
        priority=seat.priority,
        memory_bytes=memory_bytes,
        slowdown=Interval(seat.slowdown, seat.slowdown, seat.slowdown),
        kept=tuple(
            KeptObjective(label, expectation.limit_ms, expectation.range_ms or Interval(expectation.limit_ms))
            for label, expectation in seat.expected.items()
        ),
        cv=seat.cv,
        isolated=seat.isolated,
        together=seat.together,
    )
