"""Solo profiles of GPU tenants, as far as they affect neighbours: columns with one entry per tenant."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.prediction.contention.trace import Trace
from cotenant.prediction.interference.profiles import LOG_SCALE, SHARE_SCALE, Profiles
from cotenant.prediction.kernels.columns import Floats


@dataclass(frozen=True, slots=True)
class GpuProfiles(Profiles):
    """Times are per request, in nanoseconds."""

    device_ns: Floats
    """Time the device has a kernel of this tenant."""
    work_ns: Floats
    """Equivalent device time at constant `occupancy`: the same total hold on the SMs."""
    occupancy: Floats
    """Share of the SMs its kernels hold, weighted by what they hold."""
    dram: Floats
    """Share of the DRAM bandwidth while it runs."""
    launch_ns: Floats
    """Host time that overlaps with the device."""
    serial_ns: Floats
    """Host time during which the device is idle for this tenant."""
    kernels: Floats

    def features(self) -> Floats:
        """Tenants x features in normalised steps, for similarity."""
        return np.column_stack(
            (
                np.log(self.solo_ns) / LOG_SCALE,
                self.device_ns / self.solo_ns / SHARE_SCALE,
                self.work_ns / self.solo_ns / SHARE_SCALE,
                self.launch_ns / self.solo_ns / SHARE_SCALE,
                self.serial_ns / self.solo_ns / SHARE_SCALE,
                np.log(self.device_ns / self.kernels) / LOG_SCALE,
            )
        )


def profiles_of(traces: Sequence[Trace], solo_ns: Sequence[float]) -> GpuProfiles:
    """Profiles from requests and their times alone."""
    rows = [_summary(trace) for trace in traces]
    device, work, occupancy, dram, launch, serial, kernels = np.array(rows, np.float64).reshape(-1, 7).T
    return GpuProfiles(np.array(solo_ns, np.float64), device, work, occupancy, dram, launch, serial, kernels)


def _summary(trace: Trace) -> tuple[float, ...]:
    held = float((trace.duration_ns * trace.occupancy).sum())
    occupancy = float((trace.duration_ns * trace.occupancy**2).sum()) / held
    work = held / occupancy
    moved = float((trace.duration_ns * trace.dram).sum())
    launches = int(np.count_nonzero(trace.launch_ns)) or trace.duration_ns.size
    return (
        trace.device_ns,
        work,
        occupancy,
        min(moved / work, 1.0),
        float(trace.launch_ns.sum()),
        trace.before_ns + trace.after_ns,
        float(launches),
    )
