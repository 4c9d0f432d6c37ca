"""Sharing modes of a simulated GPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant.devices.protocol import Fixture, HostPlan, SeatReport, SharingMode
from cotenant.prediction.contention.layout import Layout, lay_out, missing, nearest
from cotenant.prediction.gpu import GpuSpec
from cotenant.tenancy.nouns import Tenant
from cotenant.tenancy.sharing import Sharing

MEANINGS = {
    "processes": "one process per tenant; the driver time-slices the whole GPU",
    "mps": "one process per tenant; kernels run concurrently, with shares of the SMs if given",
    "streams": "one process with a stream per tenant; kernels run concurrently, launched by one thread",
    "green": "one process; each tenant has dedicated SMs, DRAM and L2 are shared",
    "mig": "each tenant has an instance with its own SMs, memory and bandwidth",
}


@dataclass(slots=True)
class SimulatedArrangement:
    """A mix laid out on a simulated GPU. Nothing is started, so nothing needs cleanup or verification."""

    layout: Layout
    hosts: tuple[HostPlan, ...] = ()
    fixture: Fixture | None = None

    def verify(self, reports: Sequence[SeatReport]) -> tuple[str, ...]:
        """A simulated GPU is always shared as laid out."""
        del reports
        return ()


def sharing_modes(gpu: GpuSpec) -> tuple[SharingMode, ...]:
    """Every sharing mode of this GPU, except `alone`, the baseline."""
    return tuple(
        SharingMode(mode, meaning, available=lacks is None, missing=lacks, instead=nearest(gpu) if lacks else None)
        for mode, meaning in MEANINGS.items()
        for lacks in (missing(gpu, mode),)
    )


def arrange(
    gpu: GpuSpec, sharing: Sharing, tenants: Sequence[Tenant], needs: Mapping[str, int]
) -> SimulatedArrangement:
    """Lay a mix out. Raises SharingUnavailable."""
    return SimulatedArrangement(lay_out(gpu, sharing, tenants, needs))
