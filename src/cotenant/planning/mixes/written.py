"""The planner's view of a plan that was written to a file, as it was written or edited by hand."""

from collections import Counter
from collections.abc import Mapping

from cotenant.errors import StudyError
from cotenant.planning.mixes.kinds import DeviceKind
from cotenant.planning.mixes.serving_plan import KeptObjective, PlannedDevice, SeatedTenant, ServingPlan
from cotenant.tenancy.interval import Interval
from cotenant.tenancy.plan_document import REPLAN, PlanDevice, PlanDocument, PlanSeat


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
            seats.append(_seat(seat, seat.memory_bytes, numbers[tenant], copies[tenant]))
            numbers[tenant] += 1
        devices.append(_device(device, tuple(seats), kinds[device.kind]))
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


def _device(device: PlanDevice, seats: tuple[SeatedTenant, ...], kind: DeviceKind) -> PlannedDevice:
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


def _seat(seat: PlanSeat, memory_bytes: int, replica: int, replicas: int) -> SeatedTenant:
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
