"""Interface of predictors. Arrays, since a plan queries many thousands of mixes.

A predictor is a function: the simulation, a model learnt from runs, or a table of measurements.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from cotenant.planning.mixes.kinds import DeviceKind
from cotenant.planning.mixes.tenants import ServingTenant
from cotenant.planning.solver.problem import NOBODY, Bools, Floats, Ints
from cotenant.tenancy.interval import Interval


@dataclass(frozen=True, slots=True)
class Mixes:
    """Mixes on a kind of device under a way to share. Rows are mixes, columns are seats."""

    device: str
    sharing: str
    tenants: Ints
    """Tenant indices, padded with `NOBODY`."""
    rate_rps: Floats
    batch: Ints
    share: Floats
    """Percentage of the device the seat is limited to; NaN if none. Under `mig`: the profile's index."""
    clock_mhz: float | None = None
    loaded: float | None = None
    """Share of the device that is in use besides, where not all neighbours are known; None: what these seats have."""

    def rows(self, which: Ints | slice) -> "Mixes":
        """Some of them."""
        return replace(
            self,
            tenants=self.tenants[which],
            rate_rps=self.rate_rps[which],
            batch=self.batch[which],
            share=self.share[which],
        )

    @property
    def there(self) -> Bools:
        """Mask of occupied seats."""
        return np.asarray(self.tenants != NOBODY)


@dataclass(frozen=True, slots=True)
class Range:
    """Estimates with their intervals."""

    lower: Floats
    estimate: Floats
    upper: Floats

    def at(self, *index: int) -> Interval:
        """The interval of a single seat or objective."""
        return Interval(float(self.estimate[index]), float(self.lower[index]), float(self.upper[index]))


@dataclass(frozen=True, slots=True)
class PredictedMix:
    """Predicted outcome of each mix."""

    latency_ms: Range
    """Mixes x seats x objectives: the objective's quantile; infinite where the seat can't keep up with its rate."""
    slowdown: Range
    """Mixes x seats: request time beside the others over request time alone on the entire device."""
    memory_bytes: Floats
    """Mixes x seats: peak memory."""
    busy: Floats
    """By mix: fraction of the device in use; above 1 it can't keep up. Grows with every tenant."""
    bandwidth: Floats
    """By mix: fraction of the memory bandwidth in use."""
    power_w: Floats
    """By mix: mean power."""
    basis: tuple[str, ...]
    """By mix: `measured`, `2 pairs`, `prior only`, `simulated`."""
    together: Ints | None = None
    """Mixes x seats: requests that usually run together; None: the planned batch, which waits to fill."""
    doubts: tuple[tuple[str, ...], ...] | None = None
    """Mixes x seats: what of a prediction was never validated; empty if all of it was."""


class MixPredictor(Protocol):
    """Predict many mixes at once."""

    def __call__(self, mixes: Mixes, /) -> PredictedMix:
        """What would happen."""
        ...


class Requirements:
    """What tenants must achieve; rows of the tables are tenants, the last an empty seat."""

    def __init__(self, tenants: Sequence[ServingTenant]) -> None:
        self.limits = limits_of(tenants)
        self.stretch = np.array([tenant.job.stretch if tenant.job else np.inf for tenant in tenants] + [np.inf])

    def ratios(self, tenants: Ints, latency_ms: Floats) -> Floats:
        """Latencies over their limits."""
        return np.asarray(latency_ms / self.limits[tenants][..., : latency_ms.shape[2]])

    def strains(self, tenants: Ints, predicted: PredictedMix) -> Floats:
        """By mix and seat: the largest ratio to a limit, at the upper end."""
        # Infinitely slowed down, a tenant without a deadline is late by its objectives.
        slow = predicted.slowdown.upper / np.minimum(self.stretch[tenants], FOREVER_MS)
        return np.asarray(np.maximum(self.ratios(tenants, predicted.latency_ms.upper).max(axis=2), slow))

    def late(self, tenants: Ints, predicted: PredictedMix) -> Bools:
        """Seats whose objective is missed at the upper end, or whose rate exceeds capacity."""
        return np.asarray((self.strains(tenants, predicted) > 1) & (tenants != NOBODY))

    def kept(self, mixes: Mixes, predicted: PredictedMix, kind: DeviceKind) -> Bools:
        """Mixes that meet every objective and fit into memory."""
        fine = ~self.late(mixes.tenants, predicted).any(axis=1)
        if mixes.sharing == "mig":
            assert kind.mig is not None
            room = np.append([profile.memory_bytes for profile in kind.mig.profiles], np.inf)
            number = np.where(np.isnan(mixes.share), -1, mixes.share).astype(np.int64)
            return np.asarray(fine & (predicted.memory_bytes <= room[number]).all(axis=1))
        enough = predicted.memory_bytes.sum(axis=1) <= kind.memory_bytes
        return np.asarray(fine & (predicted.busy <= 1) & enough)


FOREVER_MS = 1e12


def limits_of(tenants: Sequence[ServingTenant]) -> Floats:
    """Tenants x objectives; without an objective, any finite time will do. The last row is an empty seat."""
    width = max((len(tenant.objectives) for tenant in tenants), default=0) or 1
    limits = np.full((len(tenants) + 1, width), FOREVER_MS)
    for number, tenant in enumerate(tenants):
        limits[number, : len(tenant.objectives)] = [objective.limit_ms for objective in tenant.objectives]
    return limits
