"""The ways to share a simulated GPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant.devices.protocol import Fixture, HostPlan, SeatReport, SharingMode
from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.sharing.layout import Layout, lay_out, missing, nearest
from cotenant.tenancy.nouns import Sharing, Tenant

MEANINGS = {
    "processes": "one process per tenant; the driver gives each the whole GPU in turns",
    "mps": "one process per tenant; kernels side by side, with shares of the SMs if given",
    "streams": "one process with a stream per tenant; kernels side by side, one thread launches them all",
    "green": "one process; each tenant has SMs of its own, DRAM and L2 are shared",
    "mig": "each tenant has an instance with SMs, memory and bandwidth of its own",
}


@dataclass(slots=True)
class SimulatedArrangement:
    """A mix laid out on a simulated GPU. Nothing is started, so nothing has to be removed or verified."""

    layout: Layout
    hosts: tuple[HostPlan, ...] = ()
    fixture: Fixture | None = None

    def verify(self, reports: Sequence[SeatReport]) -> tuple[str, ...]:
        """A simulated GPU is shared as it was laid out."""
        del reports
        return ()


def sharing_modes(gpu: GpuSpec) -> tuple[SharingMode, ...]:
    """Every way to share this GPU; `alone` is not one, it is the baseline."""
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
