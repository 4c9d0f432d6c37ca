"""A tenant's request as the engine runs it: kernels with the shares of the device that each one holds alone."""

from dataclasses import dataclass, fields

import numpy as np

from cotenant.devices.simulated.kernels import Floats, Ints


@dataclass(frozen=True, slots=True)
class Trace:
    """One request; every array has one entry per kernel.

    Times are those of a tenant that is alone on its part of the device. Shares are of that part, averaged over the
    kernel: what it holds or moves while it runs at full speed.
    """

    duration_ns: Floats
    occupancy: Floats
    """Share of the SMs' room for thread blocks that it holds; nobody else can use that."""
    dram: Floats
    """Share of the DRAM bandwidth."""
    tensor: Floats
    """Share of the tensor cores' throughput; only shown, since who holds the SMs holds their tensor cores."""
    launch_ns: Floats
    """Host time that its launch takes."""
    slot: Ints
    """Which stage it belongs to; rising."""
    before_ns: float = 0.0
    """Host time of a request before its first launch."""
    after_ns: float = 0.0
    """Host time of a request after its last kernel."""

    def __post_init__(self) -> None:
        sizes = {getattr(self, one.name).size for one in fields(self) if one.name not in ("before_ns", "after_ns")}
        if len(sizes) != 1 or sizes == {0}:
            raise ValueError("a trace needs at least one kernel, and one entry per kernel in every column")
        if not (np.all(self.duration_ns > 0) and np.all(self.occupancy > 0) and np.all(self.occupancy <= 1 + 1e-9)):
            raise ValueError("kernels take time, and hold more than nothing and at most all of the SMs")

    @property
    def device_ns(self) -> float:
        """Time that its kernels take alone, behind each other."""
        return float(self.duration_ns.sum())

    @property
    def host_ns(self) -> float:
        """Time that the host needs for a request."""
        return float(self.launch_ns.sum()) + self.before_ns + self.after_ns


def plain_trace(
    *,
    kernels: int,
    device_ns: float,
    occupancy: float = 1.0,
    dram: float = 0.0,
    host_ns: float = 0.0,
) -> Trace:
    """A request of equal kernels, for workloads of which only totals are known."""
    ones = np.ones(kernels)
    return Trace(
        duration_ns=ones * (device_ns / kernels),
        occupancy=ones * occupancy,
        dram=ones * dram,
        tensor=ones * 0.0,
        launch_ns=ones * (host_ns / kernels),
        slot=np.zeros(kernels, np.int64),
    )
