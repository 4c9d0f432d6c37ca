"""Solo profiles of GPU and CPU tenants, as far as they affect neighbours: columns with an entry per tenant."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.prediction.contention.trace import Trace
from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.interference.setting import placed, present
from cotenant.prediction.kernels.columns import Bools, Floats, Ints
from cotenant.prediction.power.draw import Activity, mean_w

LOG_SCALE, SHARE_SCALE = 1.5, 0.3
"""One step of distance: a factor of e^1.5 in a time, 0.3 in a share. About the spread of Gavel's 26 jobs; fixed, so
that the similarity of two tenants doesn't depend on the others in a study."""


@dataclass(frozen=True, slots=True)
class Profiles:
    """Columns with an entry per tenant."""

    solo_ns: Floats
    """Request time alone."""

    def __len__(self) -> int:
        """Number of tenants."""
        return int(self.solo_ns.size)


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


# --- CPU tenants, and the prior for their mixes: evenly shared cores and memory bandwidth
#
# A tenant alone may keep fewer cores busy than it has threads, because waking a thread on an idle core takes long;
# beside others it doesn't have to wait. So each of its threads counts as busy as its first.

CROWDED = 0.32
"""Log slowdown beyond an even share, per log of the cores wanted over those there: more threads than cores change
places, lose their caches and wait for each other. Set with the triples of `predict-truth` under `processes` in view."""
_CHUNK = 100_000


@dataclass(frozen=True, slots=True)
class CpuProfiles(Profiles):
    """Demands of requests as shares of the device."""

    cores: Floats
    """Cores it can use over the number of cores: see `cores_wanted`."""
    bandwidth: Floats
    """Fraction of the memory bandwidth in use, from counted bytes; 0 if unknown."""
    intensity: Floats
    """FLOPs per byte; 1 if unknown."""

    def features(self) -> Floats:
        """Tenants x features in normalised steps, for similarity."""
        return np.column_stack(
            (
                np.log(self.solo_ns) / LOG_SCALE,
                self.cores / SHARE_SCALE,
                self.bandwidth / SHARE_SCALE,
                np.log(self.intensity) / LOG_SCALE,
            )
        )


def cores_wanted(busy: Floats, threads: Floats, cores: int) -> Floats:
    """Share of the cores that tenants can use, from the mean number of busy cores alone and their threads."""
    return np.asarray(np.clip(np.maximum(threads * np.minimum(busy, 1.0), busy) / cores, 0.0, 1.0))


def roofline_shared(profiles: CpuProfiles, mixes: Ints, *, pinned: bool = False) -> Floats:
    """Log slowdowns: each resource is shared evenly among those that want it, and the scarcest counts.

    A tenant that wants less than an even part gets all it wants; the others share the rest.

    Args:
        profiles: Profiles of all tenants.
        mixes: Rows of tenant indices.
        pinned: Every tenant owns an even part of the cores; only bandwidth is shared.

    Returns:
        Rows x places; NaN in empty places.
    """
    parts = []
    for first in range(0, len(mixes), _CHUNK):
        some = mixes[first : first + _CHUNK]
        there = present(some)
        cores = placed(profiles.cores, some, 0.0)
        own = cores * there.sum(axis=1, keepdims=True)
        of_cores = np.maximum(own, 1.0) if pinned else core_slowdowns(cores, there)
        of_memory = even_slowdowns(placed(profiles.bandwidth, some, 0.0), there)
        parts.append(np.where(there, np.log(np.maximum(of_cores, of_memory)), np.nan))
    return np.concatenate(parts) if parts else np.empty(mixes.shape)


def core_slowdowns(wanted: Floats, there: Bools) -> Floats:
    """Of tenants that share cores: by an even part of them, and by changing places.

    Args:
        wanted: Mixes x tenants: shares of the cores that they can use.
        there: Where there is a tenant.
    """
    crowd = np.maximum(wanted.sum(axis=1, keepdims=True, where=there), 1.0) ** CROWDED
    return np.asarray(crowd * even_slowdowns(wanted, there))


def even_slowdowns(demand: Floats, there: Bools) -> Floats:
    """Demand over allocation, where one unit is shared evenly."""
    order = np.sort(np.where(there, demand, np.inf), axis=1)
    count = there.sum(axis=1)
    used, level = np.zeros(len(demand)), np.full(len(demand), np.inf)
    for rank in range(demand.shape[1]):
        left = count - rank
        even = np.where(left > 0, (1.0 - used) / np.maximum(left, 1), np.inf)
        level = np.where((left > 0) & np.isinf(level) & (order[:, rank] > even), even, level)
        used += np.where(np.isfinite(order[:, rank]), order[:, rank], 0.0)
    return np.asarray(np.maximum(demand / np.maximum(level, 1e-12)[:, None], 1.0))


# --- Power of a mix on a GPU and energy of a request, by the simulation's power law; not validated for mixes


@dataclass(frozen=True, slots=True)
class PowerUse:
    """What a request of each tenant uses of a GPU."""

    gpu: GpuSpec
    sm_s: Floats
    """Seconds of all SMs."""
    dram_s: Floats
    """Seconds of the full bandwidth."""

    def drawn(self, tenants: Sequence[int], rates_rps: Sequence[float]) -> tuple[float, list[float]]:
        """Mean power in watts, and joules per request of each tenant.

        Tenants share the power, the idle part included, in proportion to the SM time they use.
        """
        rates = np.asarray(rates_rps)
        busy, moving = self.sm_s[list(tenants)] * rates, self.dram_s[list(tenants)] * rates
        activity = Activity(min(float(busy.sum()), 1.0), min(float(moving.sum()), 1.0))
        watts = mean_w(self.gpu, activity)
        return watts, [float(joules) for joules in watts * busy / busy.sum() / rates]


def power_use(gpu: GpuSpec, profiles: GpuProfiles) -> PowerUse:
    """From the tenants' profiles alone."""
    return PowerUse(gpu, profiles.work_ns * profiles.occupancy / 1e9, profiles.work_ns * profiles.dram / 1e9)
