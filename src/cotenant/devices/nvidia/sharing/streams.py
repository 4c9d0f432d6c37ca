"""`streams`: a single process, with a thread and a stream per tenant, and priorities where the GPU has them."""

from collections.abc import Mapping, Sequence

from cotenant.devices.nvidia.seat import GpuSeatOptions
from cotenant.devices.nvidia.sharing.layout import GpuArrangement, GpuPlace, host, ranks, whole
from cotenant.devices.protocol import Fixture, SeatReport, SharingMode
from cotenant.tenancy.nouns import Tenant

MEANING = "one process with a thread and a stream per tenant; kernels run concurrently, with priorities"


def available() -> SharingMode:
    """Always."""
    return SharingMode("streams", MEANING)


def arrange(place: GpuPlace, mode: str, tenants: Sequence[Tenant], fixture: Fixture | None = None) -> GpuArrangement:
    """All tenants in the same process."""
    order = ranks(tenants)
    seats = [(index, tenant, _seat(order[index])) for index, tenant in enumerate(tenants)]
    hosts = (host(place, seats),)
    return GpuArrangement(
        mode=mode,
        tenants=tuple(tenant.name for tenant in tenants),
        plan=lambda: hosts,
        expected=lambda: (whole(place),) * len(tenants),
        fixture=fixture,
        proof=lambda reports: _without_priorities(reports, max(order)),
    )


def _seat(rank: int) -> GpuSeatOptions:
    return {"stream": True, "priority": rank}


def _without_priorities(reports: Mapping[str, SeatReport], highest: int) -> list[str]:
    """Report priorities the device lacks, which it would silently ignore."""
    for report in reports.values():
        found = report.observed.get("stream_priorities")
        if found is not None and highest > found[0] - found[1]:
            return [f"the GPU has {found[0] - found[1] + 1} stream priorities, but the mix uses {highest + 1}"]
    return []
