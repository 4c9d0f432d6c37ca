"""`processes`: a process per tenant; the driver time-slices the whole GPU. Also `alone`, its baseline."""

from collections.abc import Sequence

from cotenant.devices.nvidia.sharing import compute_mode
from cotenant.devices.nvidia.sharing.layout import GpuArrangement, GpuPlace, host, whole
from cotenant.devices.protocol import SharingMode
from cotenant.errors import SharingUnavailable
from cotenant.tenancy.nouns import Tenant

MEANING = "one process per tenant; the driver time-slices the whole GPU"


def available(place: GpuPlace) -> SharingMode:
    """Available unless an administrator restricted the GPU to one process or none."""
    now = compute_mode.read(place.gpu)
    if now in {compute_mode.DEFAULT, None}:
        return SharingMode("processes", MEANING)
    missing = f"the default compute mode: {place.gpu.label} is in {compute_mode.NAMES.get(now, 'another')}"
    return SharingMode("processes", MEANING, available=False, missing=missing, instead="streams")


def arrange(place: GpuPlace, mode: str, tenants: Sequence[Tenant]) -> GpuArrangement:
    """`alone` or `processes`."""
    if mode == "alone" and len(tenants) != 1:
        raise SharingUnavailable(
            f"`alone` is for one tenant, and this mix has {len(tenants)}", hint="use `processes` or `mps`"
        )
    hosts = tuple(host(place, [(index, tenant, {})]) for index, tenant in enumerate(tenants))
    return GpuArrangement(
        mode=mode,
        tenants=tuple(tenant.name for tenant in tenants),
        plan=lambda: hosts,
        expected=lambda: (whole(place),) * len(tenants),
    )
