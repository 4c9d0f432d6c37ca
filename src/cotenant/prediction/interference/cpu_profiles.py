"""What a CPU's tenants are when alone, and the prior for their mixes: cores and memory bandwidth, shared evenly."""

from dataclasses import dataclass

import numpy as np

from cotenant.prediction.interference.gpu_profiles import LOG_SCALE, SHARE_SCALE
from cotenant.prediction.interference.mixes import placed, present
from cotenant.prediction.kernels.columns import Bools, Floats, Ints

_CHUNK = 100_000


@dataclass(frozen=True, slots=True)
class CpuProfiles:
    """One entry per tenant in every column."""

    solo_ns: Floats
    """Time of a request, alone."""
    cores: Floats
    """Mean number of cores that it keeps busy, over all cores there are."""
    bandwidth: Floats
    """Part of the memory bandwidth that it draws, from counted bytes; 0 where unknown."""
    intensity: Floats
    """FLOPs per byte; 1 where unknown."""

    def __len__(self) -> int:
        """Number of tenants."""
        return int(self.solo_ns.size)

    def features(self) -> Floats:
        """Tenants x features, in steps: what makes tenants alike."""
        return np.column_stack(
            (
                np.log(self.solo_ns) / LOG_SCALE,
                self.cores / SHARE_SCALE,
                self.bandwidth / SHARE_SCALE,
                np.log(self.intensity) / LOG_SCALE,
            )
        )


def roofline_shared(profiles: CpuProfiles, mixes: Ints, *, pinned: bool = False) -> Floats:
    """Logarithms of slowdowns: each resource goes to those who want it in even parts, and the scarcest one counts.

    Who wants less than an even part gets it all, and the others share the rest.

    Args:
        profiles: Of all tenants.
        mixes: Rows of tenants' indices.
        pinned: Every tenant has an even part of the cores for itself; only bandwidth is common.

    Returns:
        Rows x places; NaN where a mix has no tenant.
    """
    parts = []
    for first in range(0, len(mixes), _CHUNK):
        some = mixes[first : first + _CHUNK]
        there = present(some)
        wanted = placed(profiles.cores, some, 0.0)
        own = wanted * there.sum(axis=1, keepdims=True)
        of_cores = np.maximum(own, 1.0) if pinned else _slowdown(wanted, there)
        of_memory = _slowdown(placed(profiles.bandwidth, some, 0.0), there)
        parts.append(np.where(there, np.log(np.maximum(of_cores, of_memory)), np.nan))
    return np.concatenate(parts) if parts else np.empty(mixes.shape)


def _slowdown(wanted: Floats, there: Bools) -> Floats:
    """What each wants over what it gets, where one unit is shared evenly."""
    order = np.sort(np.where(there, wanted, np.inf), axis=1)
    count = there.sum(axis=1)
    used, level = np.zeros(len(wanted)), np.full(len(wanted), np.inf)
    for place in range(wanted.shape[1]):
        left = count - place
        even = np.where(left > 0, (1.0 - used) / np.maximum(left, 1), np.inf)
        level = np.where((left > 0) & np.isinf(level) & (order[:, place] > even), even, level)
        used += np.where(np.isfinite(order[:, place]), order[:, place], 0.0)
    return np.asarray(np.maximum(wanted / np.maximum(level, 1e-12)[:, None], 1.0))
