"""Parse `--devices` of a plan: kinds of devices with their number, price, memory and ways to share."""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant import opening
from cotenant.errors import DeviceError, StudyError
from cotenant.planning.mixes.kinds import Clock, DeviceKind, Price, price_of, unknown_prices
from cotenant.planning.mixes.mig import MigGeometry
from cotenant.tenancy.device_names import DeviceName
from cotenant.tenancy.document import NotYaml, read
from cotenant.tenancy.ways import SCHEDULED
from cotenant.text import did_you_mean

if TYPE_CHECKING:
    from cotenant.devices.simulated import SimulatedGpuDevice
    from cotenant.devices.target import TargetDevice


WAYS = ("processes", "mps", SCHEDULED, "mig")
"""Ways to share a GPU that plans use where available."""
CLOCK_PERCENTS = (100, 90, 80, 70, 60, 50)
CPU_WAYS = ("processes", "threads", "pinned")
_UNKNOWN = Price(math.nan, "", "")
_OWN = Price(0.0, "your own machine, no price given", "")
_MORE_OF_IT = re.compile(r"^\d+(-\d+)?$")


@dataclass(frozen=True, slots=True)
class Devices:
    """Kinds of devices, and the source of predictions for each."""

    kinds: tuple[DeviceKind, ...]
    gpus: "Mapping[str, SimulatedGpuDevice]" = field(default_factory=dict)
    """By kind: the simulated GPU; for a real GPU, its twin in the catalogue."""
    places: "Mapping[str, TargetDevice]" = field(default_factory=dict)
    """By kind: real CPUs, known from runs only."""


def devices_of(
    devices: str,
    prices: Mapping[str, float],
    *,
    priced: bool,
    clocked: bool = False,
    sharing: Collection[str] = (),
) -> Devices:
    """Parse a list of devices.

    Args:
        devices: Comma-separated: `sim:a100-sxm4-80gb*4, sim:t4`, `cuda:0,1`, `cpu`; or a fleet.yaml.
        prices: The user's prices, dollars per hour by kind.
        priced: False: a kind without a price is free.
        clocked: GPUs can run at lower clocks.
        sharing: Ways to share that may be chosen; default: all.

    Raises:
        CotenantError: A device is unknown, can't be planned for, has no known price beside others, or can't be shared
            in any of these ways.
    """
    from cotenant.devices.simulated import open_simulated

    if is_fleet_file(devices):
        devices, stated = read_fleet(Path(devices))
        prices = {**stated, **prices}
    kinds: dict[str, DeviceKind] = {}
    gpus: dict[str, SimulatedGpuDevice] = {}
    places: dict[str, TargetDevice] = {}
    for name, number in _named(devices):
        if DeviceName(name).simulated:
            gpu = open_simulated(name)
            before = kinds.get(gpu.name)
            if before is not None and before.members:
                raise DeviceError(
                    f"{name} is the simulated twin of {before.members[0]}, and both were given",
                    hint="plan for one of them",
                )
            count = number + (before.available if before else 0)
            kinds[gpu.name] = _gpu_kind(gpu, count, _price(gpu.name, prices, priced=priced))
            gpus[gpu.name] = gpu
            continue
        if DeviceName(name).on_cpu:
            kinds[name], places[name] = _cpu_kind(name, prices)
        else:
            kind, gpu = _real_gpu(name, prices, priced=priced)
            before = kinds.get(kind.name)
            members = (*(before.members if before else ()), name)
            kinds[kind.name] = replace(kind, members=members, available=len(members))
            gpus[kind.name] = gpu
        if number != 1:
            raise DeviceError(f"{name} is there once, not {number} times", hint="name each device, e.g. cuda:0,1")
    if not kinds:
        raise DeviceError("no device was given", hint="write e.g. --devices sim:a100-sxm4-80gb*4")
    kinds = {name: _limited(kind, sharing) for name, kind in _counted_without_price(kinds).items()}
    _check_names(prices, kinds)
    if clocked:
        kinds = {
            name: replace(kind, clocks=_clocks(gpus[name])) if name in gpus else kind for name, kind in kinds.items()
        }
    return Devices(tuple(kinds.values()), gpus, places)


def _counted_without_price(kinds: dict[str, DeviceKind]) -> dict[str, DeviceKind]:
    """Devices of the same kind need no price: they can be counted."""
    unpriced = [kind.name for kind in kinds.values() if math.isnan(kind.price_per_h)]
    if unpriced and len(kinds) > 1:
        raise unknown_prices(unpriced)
    return {name: replace(kind, price_per_h=0.0) if unpriced else kind for name, kind in kinds.items()}


def _limited(kind: DeviceKind, sharing: Collection[str]) -> DeviceKind:
    """With the ways to share that are allowed."""
    ways = tuple(way for way in kind.ways if way in sharing) if sharing else kind.ways
    if not ways:
        unknown = sorted({*sharing} - {*WAYS, *CPU_WAYS})
        hint = did_you_mean(unknown[0], sorted({*WAYS, *CPU_WAYS})) if unknown else ""
        raise DeviceError(
            f"{kind.name} can't be shared by {', '.join(sharing)}", hint=hint or f"it has {', '.join(kind.ways)}"
        )
    return replace(kind, ways=ways)


def _check_names(prices: Mapping[str, float], kinds: Mapping[str, DeviceKind]) -> None:
    """Refuse prices of devices that don't exist: a misspelt name would leave the list price in force."""
    from cotenant.devices.simulated import gpu_names

    given = {name for kind in kinds.values() for name in (kind.name, *kind.members)}
    known = {*gpu_names(), *given}
    for name in prices:
        if DeviceName(name).model not in known and name not in known:
            raise DeviceError(
                f"there is a price for {name!r}, which is not a device",
                hint=did_you_mean(name, sorted(known), most=3, cutoff=0.4) or "remove it, or write e.g. t4: 0.50",
            )


def _clocks(gpu: "SimulatedGpuDevice") -> tuple[Clock, ...]:
    """From the highest clock down to half of it, with the power of the fully busy GPU at each."""
    from cotenant.prediction.power import Activity, mean_w

    levels = dict.fromkeys(float(gpu.absolute({"clock_mhz": f"{part}%"})["clock_mhz"]) for part in CLOCK_PERCENTS)
    return tuple(Clock(mhz, mean_w(gpu.gpu, Activity(1.0, 1.0), mhz)) for mhz in levels)


def _named(devices: str) -> list[tuple[str, int]]:
    """Names and counts; in `cuda:0,1` the second part inherits the family of the first."""
    named: list[tuple[str, int]] = []
    for part in (text.strip() for text in devices.split(",")):
        if not part:
            continue
        name, _, number = part.partition("*")
        if number and (not number.isdigit() or int(number) < 1):
            raise DeviceError(f"{part!r} does not end in a number of devices", hint="write e.g. sim:a100-sxm4-80gb*4")
        if _MORE_OF_IT.match(name) and named:
            name = f"{named[-1][0].partition(':')[0]}:{name}"
        named.append((name.strip(), int(number or 1)))
    return named


def _price(kind: str, prices: Mapping[str, float], *, priced: bool) -> Price:
    return (price_of(kind, dict(prices)) or _UNKNOWN) if priced else Price(0.0, "not minimised", "")


def _gpu_kind(gpu: "SimulatedGpuDevice", count: int, price: Price) -> DeviceKind:
    there = {SCHEDULED, *(mode.mode for mode in gpu.sharings() if mode.available)}
    mig = None
    if gpu.gpu.mig is not None:
        profiles = {
            name: (profile.compute_slices, profile.memory_slices, int(profile.memory_gib * 2**30))
            for name, profile in gpu.gpu.mig.profiles.items()
        }
        mig = MigGeometry.of(gpu.gpu.mig.compute_slices, gpu.gpu.mig.memory_slices, profiles)
    return DeviceKind(
        name=gpu.name,
        title=gpu.gpu.title,
        memory_bytes=gpu.gpu.memory_bytes,
        price_per_h=price.usd_per_h,
        price_basis=price.basis,
        available=count,
        ways=tuple(way for way in WAYS if way in there),
        mig=mig,
        idle_w=gpu.gpu.power.idle_w,
    )


def _real_gpu(name: str, prices: Mapping[str, float], *, priced: bool) -> "tuple[DeviceKind, SimulatedGpuDevice]":
    """A GPU of this machine, predicted by its twin in the catalogue; its ways to share are those available here."""
    from cotenant.devices.target import place_at, twin_of

    target = place_at(name)
    twin = twin_of(target)
    own = {twin.name: prices[name]} if name in prices else {}
    kind = _gpu_kind(twin, 1, _price(twin.name, {**prices, **own}, priced=priced))
    return replace(kind, ways=tuple(way for way in kind.ways if way == SCHEDULED or way in target.modes)), twin


def _cpu_kind(name: str, prices: Mapping[str, float]) -> "tuple[DeviceKind, TargetDevice]":
    from cotenant.devices.target import place_at

    target = place_at(name)
    price = price_of(name, dict(prices)) or _OWN
    free = target.device.least_free_bytes()
    kind = DeviceKind(
        name=name,
        title=target.kind,
        memory_bytes=free,
        price_per_h=price.usd_per_h,
        price_basis=price.basis,
        available=1,
        ways=tuple(way for way in CPU_WAYS if way in target.modes),
        members=(name,),
    )
    return kind, target


# --- A fleet.yaml as `--devices` of a plan: devices, counts and prices

_KEYS = ("device", "count", "price")
_HINT = "e.g. `devices: [{device: sim:a100-sxm4-80gb, count: 4, price: 1.20}, cuda:0]`"


def is_fleet_file(devices: str) -> bool:
    """True if `--devices` names a file."""
    return devices.endswith((".yaml", ".yml")) and not DeviceName(devices).simulated


def read_fleet(path: Path) -> tuple[str, Mapping[str, float]]:
    """The devices in the syntax of `--devices`, and prices per hour by kind.

    Raises:
        StudyError: with every problem of the file.
    """
    try:
        tree = read(opening.read_text(path), str(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise StudyError(f"{path} can't be read: {reason}", hint=_HINT) from None
    except NotYaml as error:
        raise StudyError(f"{path}:{error.line}: {error}", hint=_HINT) from None
    entries = tree.data.get("devices") if isinstance(tree.data, dict) else None
    if not isinstance(entries, list) or not entries:
        raise StudyError(f"{path} names no devices", hint=_HINT)
    names, prices, problems = [], {}, []
    for position, entry in enumerate(entries):
        problem = _problem(entry)
        if problem:
            problems.append(tree.places.describe(("devices", position), problem))
            continue
        device = {"device": entry} if isinstance(entry, str) else entry
        names.append(f"{device['device']}*{device['count']}" if "count" in device else str(device["device"]))
        if "price" in device:
            prices[str(device["device"])] = float(device["price"])
    if problems:
        raise StudyError(f"{path} has problems", problems=tuple(problems), hint=_HINT)
    return ", ".join(names), prices


def _problem(entry: Any) -> str | None:
    """The problem with an entry, in a sentence; None if it is valid."""
    if isinstance(entry, str):
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get("device"), str):
        return "expected a device such as sim:t4, or {device: sim:t4, count: 4, price: 0.50}"
    unknown = [key for key in entry if key not in _KEYS]
    if unknown:
        return f"unknown key {unknown[0]}; expected one of {', '.join(_KEYS)}"
    count, price = entry.get("count", 1), entry.get("price", 0.0)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        return f"count: expected a number of devices from 1, not {count}"
    if isinstance(price, bool) or not isinstance(price, int | float) or price < 0:
        return f"price: expected dollars per hour, not {price}"
    return None
