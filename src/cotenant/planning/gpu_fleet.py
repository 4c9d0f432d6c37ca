"""GPUs as placement sees them: speed, power, location, and the effect of other clocks.

At its power limit, a GPU runs at the clock the limit allows, so a slow die is a die with a low clock. Work that needs
less power runs at the highest clock on every die, and dies hardly differ. Both follow from the same curve of power over
clock, scaled to match each die's measured power at its measured clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cotenant.analyse.estimates import Floats
from cotenant.analyse.variability import GpuProfile, PowerByClock
from cotenant.tenancy.jobs import JobClass

Numbers = npt.NDArray[np.int64]

NODE_SIZE = 4
"""GPUs with an unknown node are grouped into nodes of this size, in order of name."""


@dataclass(frozen=True, slots=True)
class GpuKind:
    """Properties common to all dies of a GPU model."""

    curve: PowerByClock
    """Power as a function of clock. Only its shape matters: each die's power scales it."""
    lowest_mhz: float
    highest_mhz: float
    step_mhz: float
    """Step between the clocks that placement considers."""
    idle_w: float
    """Idle power."""


V100 = GpuKind(
    # Fitted to published measurements of a matrix product: 66 W at 600 MHz, 99 at 945, 122 at 1087, 154 at 1237, 186 at
    # 1380.
    curve=PowerByClock(idle_w=8.6, slope=0.0957, bend=2.8e-4, knee_mhz=945.0, held_out=None, clocks=5),
    lowest_mhz=600.0,
    highest_mhz=1530.0,
    step_mhz=7.5,
    idle_w=40.0,
)
"""The model for which measurements of entire fleets are published; the default where profiles name no model."""


@dataclass(frozen=True)
class GpuFleet:
    """GPUs in columns."""

    gpus: tuple[str, ...]
    relative_time: Floats
    """Time relative to the median GPU, for work at the power limit."""
    clock_mhz: Floats
    """Clock at which that was measured."""
    power_w: Floats
    node: Numbers
    kind: GpuKind = V100
    simulated: bool = False
    """The profiles were computed by a model, not measured."""
    _work: "dict[JobClass, DatabaseWork]" = field(default_factory=dict, compare=False)

    def __len__(self) -> int:
        return len(self.gpus)

    @cached_property
    def nodes(self) -> Numbers:
        """GPUs by node, a row each, padded with -1."""
        order = np.argsort(self.node, kind="stable")
        counts = np.bincount(self.node)
        rows = np.full((counts.size, counts.max(initial=1)), -1, np.int64)
        places = np.arange(order.size) - np.repeat(np.cumsum(counts) - counts, counts)
        rows[self.node[order], places] = order
        return rows

    def work(self, kind: JobClass) -> "DatabaseWork":
        """Behaviour of this class of work on every GPU. Cached."""
        if kind not in self._work:
            self._work[kind] = DatabaseWork.of(self, kind)
        return self._work[kind]

    def power_at(self, kind: JobClass, gpus: Numbers, clock_mhz: Floats) -> Floats:
        """Power of such work on these GPUs at these clocks."""
        rise = self._rise(clock_mhz) / self._rise(self.clock_mhz[gpus])
        idle_w = self.kind.idle_w
        return np.asarray(idle_w + kind.activity * (self.power_w[gpus] - idle_w) * rise)

    def time_at(self, kind: JobClass, gpus: Numbers, clock_mhz: Floats) -> Floats:
        """Time of such work at these clocks relative to the median GPU."""
        return np.asarray(self._raw_time(kind, gpus, clock_mhz) / self.work(kind).middle)

    def _raw_time(self, kind: JobClass, gpus: Numbers, clock_mhz: Floats) -> Floats:
        pace = self.relative_time[gpus] * self.clock_mhz[gpus]
        return np.asarray(1 - kind.core_share + kind.core_share * pace / clock_mhz)

    def _rise(self, clock_mhz: Floats) -> Floats:
        return np.asarray(self.kind.curve.at(clock_mhz) - self.kind.curve.idle_w)


@dataclass(frozen=True)
class DatabaseWork:
    """A class of work on every GPU at its natural clock."""

    clock_mhz: Floats
    time: Floats
    """Relative to the median GPU."""
    power_w: Floats
    middle: float
    order: Numbers
    """GPUs from fastest to slowest."""

    @classmethod
    def of(cls, fleet: GpuFleet, kind: JobClass) -> "DatabaseWork":
        """The highest clock at which each GPU stays within its measured power at the limit."""
        everyone = np.arange(len(fleet))
        gpu = fleet.kind
        clocks = np.arange(gpu.lowest_mhz, gpu.highest_mhz + gpu.step_mhz / 2, gpu.step_mhz)
        rise = fleet._rise(clocks)[None, :] / fleet._rise(fleet.clock_mhz)[:, None]  # noqa: SLF001 - the same idea
        within = kind.activity * rise <= 1.0
        clock = np.maximum(clocks[np.maximum(within.sum(axis=1) - 1, 0)], gpu.lowest_mhz)
        if kind.activity >= 1.0:
            clock = fleet.clock_mhz.copy()  # measured values replace grid points
        raw = fleet._raw_time(kind, everyone, clock)  # noqa: SLF001
        middle = float(np.median(raw))
        time = raw / middle
        return cls(clock, time, fleet.power_at(kind, everyone, clock), middle, np.argsort(time, kind="stable"))


def fleet_of(
    profiles: Sequence[GpuProfile],
    *,
    kind: GpuKind = V100,
    simulated: bool = False,
) -> GpuFleet:
    """Build from profiles, leaving out GPUs without a clock or power."""
    known = [profile for profile in profiles if profile.clock_mhz and profile.power_w]
    # Node numbers repeat across cabinets.
    nodes = sorted({(profile.cabinet, profile.node) for profile in known if profile.node})
    codes = {cabinet_node: code for code, cabinet_node in enumerate(nodes)}
    nowhere = iter(range(len(known)))
    node = [
        codes[profile.cabinet, profile.node] if profile.node else len(nodes) + next(nowhere) // NODE_SIZE
        for profile in known
    ]
    return GpuFleet(
        gpus=tuple(profile.gpu for profile in known),
        relative_time=np.array([profile.relative_time.est for profile in known]),
        clock_mhz=np.array([profile.clock_mhz or 0.0 for profile in known]),
        power_w=np.array([profile.power_w or 0.0 for profile in known]),
        node=np.array(node, dtype=np.int64),
        kind=kind,
        simulated=simulated,
    )
