"""`green`: a single process, with a green context on dedicated SMs for each tenant; DRAM and L2 are shared."""

from collections.abc import Mapping, Sequence

from cotenant.devices.nvidia.green_contexts import bindings_here
from cotenant.devices.nvidia.seat import GpuSeatOptions
from cotenant.devices.nvidia.sharing.layout import GpuArrangement, GpuPlace, host, percentages, whole
from cotenant.devices.nvidia.tools import torch_build
from cotenant.devices.protocol import SeatReport, SharingMode
from cotenant.errors import SharingUnavailable
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.sharing import Sharing

MEANING = "one process; each tenant in a green context with dedicated SMs, DRAM and L2 shared"
GRAIN = {6: (1, 1), 7: (2, 2), 8: (4, 2)}
"""Minimum SMs of a partition and step size, by compute capability (CUDA driver API); newer: 8 and 8."""
FIRST_DRIVER = 550


def missing(place: GpuPlace) -> str | None:
    """The missing requirement; None if available."""
    build = torch_build()
    if place.torch_on_cpu:
        return "torch on the GPU: a CPU has no green contexts"
    if build is None or build.cuda is None:
        return f"a CUDA build of torch; installed: {build.version if build else 'none'}"
    if not bindings_here():
        return "the driver's bindings for Python (pip install cuda-bindings)"
    if place.gpu.compute_capability < (6, 0):
        return f"green contexts: {place.gpu.label} is too old"
    if int(place.gpu.driver.partition(".")[0] or 0) < FIRST_DRIVER:
        return f"green contexts: they need driver {FIRST_DRIVER} or newer, this is {place.gpu.driver}"
    return None


def available(place: GpuPlace) -> SharingMode:
    """True if driver and bindings support them."""
    lacking = missing(place)
    return SharingMode(
        "green", MEANING, available=lacking is None, missing=lacking, instead=None if lacking is None else "streams"
    )


def sms_of(place: GpuPlace, sharing: Sharing, tenants: Sequence[Tenant]) -> tuple[int, ...]:
    """SMs for each tenant: its share rounded down, or an even split. Raises SharingUnavailable."""
    shares = percentages(sharing, tenants, disjoint=True) or (100 / len(tenants),) * len(tenants)
    if place.sms is None:
        raise SharingUnavailable(f"the driver does not say how many SMs {place.gpu.label} has", hint="use `streams`")
    return sms_for(shares, place.sms, place.gpu.compute_capability[0], place.gpu.label)


def sms_for(shares: Sequence[float], sms: int, generation: int, label: str) -> tuple[int, ...]:
    """SMs for each share in per cent, rounded down to what this generation of GPUs can split.

    Raises:
        SharingUnavailable: A share is too small.
    """
    least, step = grain(generation)
    parts = tuple(int(sms * share / 100 + 1e-9) // step * step for share in shares)
    if min(parts) < least:
        raise SharingUnavailable(
            f"the smallest part `green` can give of {label} is {least} SMs, and {min(shares):.3g} % is less",
            hint="use fewer tenants, larger shares, or `streams`",
        )
    return parts


def grain(generation: int) -> tuple[int, int]:
    """Minimum SMs of a partition and step size."""
    return GRAIN.get(generation, (8, 8))


def arrange(place: GpuPlace, sharing: Sharing, tenants: Sequence[Tenant]) -> GpuArrangement:
    """All tenants in the same process, each in its own context."""
    parts = sms_of(place, sharing, tenants)
    seats: list[GpuSeatOptions] = [{"green_sms": list(parts), "green_part": number} for number in range(len(parts))]
    hosts = (host(place, [(number, tenant, seats[number]) for number, tenant in enumerate(tenants)]),)
    names = tuple(tenant.name for tenant in tenants)
    return GpuArrangement(
        mode="green",
        tenants=names,
        plan=lambda: hosts,
        expected=lambda: (whole(place),) * len(tenants),  # the process sees the whole GPU, its threads don't use it
        proof=lambda reports: _elsewhere(place, dict(zip(names, parts, strict=True)), reports),
    )


def _elsewhere(place: GpuPlace, parts: Mapping[str, int], reports: Mapping[str, SeatReport]) -> list[str]:
    """Tenants without a context, or with a context of the wrong size; parts of a split never overlap.

    The driver may round up by a step, no more.
    """
    sentences = []
    for name, wanted in parts.items():
        got = reports[name].observed.get("green_sms") if name in reports else wanted
        if got is None:
            sentences.append(f"{name} is not in a green context of {wanted} SMs")
        elif not wanted <= got <= wanted + grain(place.gpu.compute_capability[0])[1]:
            sentences.append(f"{name} is in a green context of {got} SMs instead of {wanted}")
    return sentences
