"""Read a plan back from the contents of plan.yaml, as it was written or edited by hand."""

from collections.abc import Mapping
from typing import Any

from cotenant.errors import StudyError
from cotenant.planning.mixes.devices import DeviceKind
from cotenant.planning.mixes.plan import Kept, PlannedDevice, SeatedTenant, ServingPlan

_HINT = "write it anew with `cotenant plan tenants.yaml --devices ... --out plan.yaml`"


def from_document(document: Mapping[str, Any], kinds: Mapping[str, DeviceKind], source: str) -> ServingPlan:
    """The plan as far as it can be carried out: without alternatives and reasons, which the file doesn't hold.

    Args:
        document: Contents of plan.yaml.
        kinds: By name, those that the plan uses.
        source: The file's name, for messages.

    Raises:
        StudyError: Something is missing or of the wrong type; names the tenant and the key.
    """
    copies: dict[str, int] = {}
    for device in document["devices"]:
        for seat in device["tenants"].values():
            name = str(seat.get("tenant"))
            copies[name] = copies.get(name, 0) + 1
    numbers = dict.fromkeys(copies, 0)
    devices = []
    for device in document["devices"]:
        seats = []
        for name, seat in device["tenants"].items():
            tenant = str(seat.get("tenant"))
            seats.append(_seat(name, seat, (numbers[tenant], copies[tenant]), source))
            numbers[tenant] += 1
        devices.append(_device(device, tuple(seats), kinds[str(device["kind"])]))
    cost = float(document.get("cost_per_h", sum(device.price_per_h for device in devices)))
    return ServingPlan(
        minimised=str(document.get("minimised", "cost")),
        devices=tuple(devices),
        left_out=tuple(map(str, document.get("left_out", ()))),
        cost_per_h=cost,
        value=cost,
        bound=float(document.get("bound", 0.0)),
        proof=f"as written in {source}",
        risk=float(document.get("risk", 0.1)),
        prices=(),
    )


def _device(device: Mapping[str, Any], seats: tuple[SeatedTenant, ...], kind: DeviceKind) -> PlannedDevice:
    unknown = float("nan")  # the file holds what to do, not how busy it will be
    return PlannedDevice(
        name=str(device.get("name", device["kind"])),
        kind=kind.name,
        title=kind.title,
        sharing=str(device["sharing"]),
        tenants=seats,
        devices=int(device.get("devices", 1)),
        price_per_h=float(device.get("price_per_h", 0.0)),
        memory_bytes=kind.memory_bytes,
        busy=unknown,
        bandwidth=unknown,
        power_w=unknown,
        basis=str(device.get("basis", "")),
        clock_mhz=device.get("clock_mhz"),
        power_limit_w=device.get("power_w"),
    )


def _seat(name: str, seat: Mapping[str, Any], replica: tuple[int, int], source: str) -> SeatedTenant:
    share = seat.get("share")
    together = seat.get("together")
    slowdown = float(seat.get("slowdown", 1.0))
    try:
        return SeatedTenant(
            tenant=str(seat["tenant"]),
            replica=replica[0],
            replicas=replica[1],
            rate_rps=float(seat["rate_rps"]),
            batch=int(seat["batch"]),
            software=str(seat.get("software", "eager")),
            share=float(share) if isinstance(share, int) else share,
            priority=int(seat.get("priority", 0)),
            memory_bytes=int(seat["memory_bytes"]),
            slowdown=(slowdown, slowdown, slowdown),
            kept=tuple(
                Kept(label, *(float(one[key]) for key in ("limit_ms", "lower_ms", "estimate_ms", "upper_ms")))
                for label, one in seat.get("expected", {}).items()
            ),
            cv=float(seat.get("cv", 1.0)),
            isolated=bool(seat.get("isolated", False)),
            together=None if together is None else int(together),
        )
    except KeyError as error:
        raise StudyError(f"{source}: {name} has no {error.args[0]}", hint=_HINT) from None
    except (TypeError, ValueError, AttributeError) as error:
        raise StudyError(f"{source}: {name} has a value of the wrong type: {error}", hint=_HINT) from None
