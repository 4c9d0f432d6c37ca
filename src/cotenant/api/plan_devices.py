"""What `--devices` of a plan names: kinds of devices with their number, price, memory and ways to share."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cotenant.errors import DeviceError
from cotenant.planning.mixes.devices import DeviceKind
from cotenant.planning.mixes.mig import Mig
from cotenant.planning.mixes.prices import Price, price_of

if TYPE_CHECKING:
    from cotenant.devices.simulated.device import SimulatedGpu

WAYS = ("processes", "mps", "mig")
"""Ways to share that plans use where a device has them."""


def kinds_of(
    devices: str, prices: Mapping[str, float], *, priced: bool
) -> "tuple[tuple[DeviceKind, ...], dict[str, SimulatedGpu]]":
    """The kinds, and the simulated GPU of each.

    Args:
        devices: Comma-separated: `sim:a100-sxm4-80gb*4, sim:t4`.
        prices: The user's own, dollars per hour by kind.
        priced: False: a kind without a price costs nothing.

    Raises:
        CotenantError: There is no such device, it isn't simulated, or its price is unknown.
    """
    from cotenant.devices.simulated.device import open_simulated

    kinds: dict[str, DeviceKind] = {}
    gpus: dict[str, SimulatedGpu] = {}
    for part in (one.strip() for one in devices.split(",")):
        if not part:
            continue
        name, _, number = part.partition("*")
        if not name.startswith("sim:"):
            raise DeviceError(
                f"{name} can't be planned for: predictions for plans come from the simulation",
                hint="name the simulated twin of the GPU, e.g. --devices sim:a100-sxm4-80gb*4",
            )
        if number and (not number.isdigit() or int(number) < 1):
            raise DeviceError(f"{part!r} names no number of devices", hint="write e.g. sim:a100-sxm4-80gb*4")
        gpu = open_simulated(name)
        count = int(number or 1) + (kinds[gpu.name].available if gpu.name in kinds else 0)
        kinds[gpu.name] = _kind(gpu, count, prices, priced=priced)
        gpus[gpu.name] = gpu
    if not kinds:
        raise DeviceError("no device was named", hint="write e.g. --devices sim:a100-sxm4-80gb*4")
    return tuple(kinds.values()), gpus


def _kind(gpu: "SimulatedGpu", count: int, prices: Mapping[str, float], *, priced: bool) -> DeviceKind:
    price = price_of(gpu.name, dict(prices)) if priced else Price(0.0, "not asked for", "")
    there = {mode.mode for mode in gpu.sharings() if mode.available}
    mig = None
    if gpu.gpu.mig is not None:
        profiles = {
            name: (one.compute_slices, one.memory_slices, int(one.memory_gib * 2**30))
            for name, one in gpu.gpu.mig.profiles.items()
        }
        mig = Mig.of(gpu.gpu.mig.compute_slices, gpu.gpu.mig.memory_slices, profiles)
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
