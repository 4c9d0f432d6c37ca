"""Ways to share a GPU that don't divide it: `processes`, `streams` and `exclusive`; and `alone`, their baseline."""

from collections.abc import Mapping, Sequence
from typing import Self

from cotenant.devices.nvidia.library import DriverProblem
from cotenant.devices.nvidia.nvml import GpuFacts
from cotenant.devices.nvidia.seat import GpuSeatOptions
from cotenant.devices.nvidia.sharing import compute_mode
from cotenant.devices.nvidia.sharing.layout import GpuArrangement, GpuPlace, host, ranks, whole
from cotenant.devices.nvidia.sharing.leftovers import Undoing, leave
from cotenant.devices.protocol import Fixture, SeatReport, SharingMode
from cotenant.errors import SharingUnavailable
from cotenant.tenancy.nouns import Tenant

PROCESSES = "one process per tenant; the driver time-slices the whole GPU"
STREAMS = "one process with a thread and a stream per tenant; kernels run concurrently, with priorities"
EXCLUSIVE = "as `streams`, and the driver refuses every other process (compute mode exclusive process)"


def processes(place: GpuPlace) -> SharingMode:
    """Available unless an administrator restricted the GPU to one process or none."""
    now = compute_mode.read(place.gpu)
    if now in {compute_mode.DEFAULT, None}:
        return SharingMode("processes", PROCESSES)
    missing = f"the default compute mode: {place.gpu.label} is in {compute_mode.NAMES.get(now, 'another')}"
    return SharingMode("processes", PROCESSES, available=False, missing=missing, instead="streams")


def one_process_each(place: GpuPlace, mode: str, tenants: Sequence[Tenant]) -> GpuArrangement:
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


def streams() -> SharingMode:
    """Always available."""
    return SharingMode("streams", STREAMS)


def threads(place: GpuPlace, mode: str, tenants: Sequence[Tenant], fixture: Fixture | None = None) -> GpuArrangement:
    """All tenants in the same process."""
    order = ranks(tenants)
    hosts = (host(place, [(index, tenant, _stream(order[index])) for index, tenant in enumerate(tenants)]),)
    return GpuArrangement(
        mode=mode,
        tenants=tuple(tenant.name for tenant in tenants),
        plan=lambda: hosts,
        expected=lambda: (whole(place),) * len(tenants),
        fixture=fixture,
        proof=lambda reports: _without_priorities(reports, max(order)),
    )


def _stream(rank: int) -> GpuSeatOptions:
    return {"stream": True, "priority": rank}


def _without_priorities(reports: Mapping[str, SeatReport], highest: int) -> list[str]:
    """Report priorities the device lacks, which it would silently ignore."""
    for report in reports.values():
        found = report.observed.get("stream_priorities")
        if found is not None and highest > found[0] - found[1]:
            return [f"the GPU has {found[0] - found[1] + 1} stream priorities, but the mix uses {highest + 1}"]
    return []


class ExclusiveFixture(Undoing):
    """The GPU in compute mode `exclusive process`."""

    alone = True

    def __init__(self, gpu: GpuFacts) -> None:
        self._gpu = gpu
        self.name = f"compute mode `exclusive process` of {gpu.label}"

    def __enter__(self) -> Self:
        """Set the mode and read it back."""
        before = compute_mode.read(self._gpu)
        self._left = leave("compute_mode", {"gpu": self._gpu.uuid, "mode": before})
        try:
            compute_mode.write(self._gpu, compute_mode.EXCLUSIVE_PROCESS)
        except DriverProblem as problem:
            self.__exit__()
            raise SharingUnavailable(f"{self.name} can't be set: {problem.message}", hint="use `streams`") from None
        return self

    def stands(self) -> bool:
        """True while the GPU is in that mode."""
        return compute_mode.read(self._gpu) == compute_mode.EXCLUSIVE_PROCESS


def exclusive_lacks(place: GpuPlace) -> str | None:
    """The missing requirement; None if available."""
    return None if compute_mode.may_write(place.gpu) else "root: only an administrator may change the compute mode"


def exclusive(place: GpuPlace) -> SharingMode:
    """Never for `all`: it locks everyone else out of the GPU, so a study has to name it."""
    lacking = exclusive_lacks(place) or "to be named in a study, since it locks everyone else out of the GPU"
    return SharingMode("exclusive", EXCLUSIVE, available=False, missing=lacking, instead="streams")
