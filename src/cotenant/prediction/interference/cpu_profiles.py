"""Solo profiles of CPU tenants, and the prior for their mixes: evenly shared cores and memory bandwidth.

A tenant alone may keep fewer cores busy than it has threads, because waking a thread on an idle core takes long; beside
others it doesn't have to wait. So each of its threads counts as busy as its first.
"""

from dataclasses import dataclass

import numpy as np

from cotenant.prediction.interference.mixes import placed, present
from cotenant.prediction.interference.profiles import LOG_SCALE, SHARE_SCALE, Profiles
from cotenant.prediction.kernels.columns import Bools, Floats, Ints

CROWDED = 0.32
"""Log slowdown beyond an even share, per log of the cores wanted over those there: more threads than cores change
places and lose their caches. Set with the triples of `predict-truth` under `processes` in view."""
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
    """Log slowdowns: each resource is shared evenly among those that want it, and the scarcest one counts.

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
        wanted = placed(profiles.cores, some, 0.0)
        own = wanted * there.sum(axis=1, keepdims=True)
        crowd = np.maximum(wanted.sum(axis=1, keepdims=True), 1.0) ** CROWDED
        of_cores = np.maximum(own, 1.0) if pinned else crowd * _slowdown(wanted, there)
        of_memory = _slowdown(placed(profiles.bandwidth, some, 0.0), there)
        parts.append(np.where(there, np.log(np.maximum(of_cores, of_memory)), np.nan))
    return np.concatenate(parts) if parts else np.empty(mixes.shape)


def _slowdown(wanted: Floats, there: Bools) -> Floats:
    """Demand over allocation, where one unit is shared evenly."""
    order = np.sort(np.where(there, wanted, np.inf), axis=1)
    count = there.sum(axis=1)
    used, level = np.zeros(len(wanted)), np.full(len(wanted), np.inf)
    for place in range(wanted.shape[1]):
        left = count - place
        even = np.where(left > 0, (1.0 - used) / np.maximum(left, 1), np.inf)
        level = np.where((left > 0) & np.isinf(level) & (order[:, place] > even), even, level)
        used += np.where(np.isfinite(order[:, place]), order[:, place], 0.0)
    return np.asarray(np.maximum(wanted / np.maximum(level, 1e-12)[:, None], 1.0))
