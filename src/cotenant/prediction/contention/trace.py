"""A tenant's request as the engine runs it: kernels with the shares of the device each holds alone."""

from dataclasses import dataclass, fields, replace

import numpy as np

from cotenant.prediction.kernels.columns import TRANSFER, Floats, Ints, Kernels
from cotenant.prediction.kernels.cost import Costs

FIXED_HOLDS = 0.35
"""Share of its SMs that a kernel holds while it starts, fills and drains. Fitted on N processes of four models under
MPS (ParvaGPU, A100-80GB: ResNet-50, VGG-16, DenseNet-121, MobileNetV2)."""

PLAIN_WAVES = 4
"""Waves of thread blocks of a kernel whose time alone is known."""
_LEAST = 1e-6
"""A copy engine holds no SM; avoids a division by zero."""
_SHORTEST_NS = 1.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How host and device keep each other waiting, from the first launch to the last kernel's end."""

    launched_ns: Floats
    """By kernel: host time until it is launched, since the host last waited."""
    remaining_ns: Floats
    """Device time from its start until the host waits next."""
    starts: Ints
    """First kernels after each wait."""

    @classmethod
    def of(cls, launch_ns: Floats, duration_ns: Floats, waited: Floats) -> "Pace":
        """Of kernels in launch order."""
        starts = np.concatenate([[0], np.flatnonzero(waited[:-1]) + 1]).astype(np.int64)
        sizes = np.diff(np.append(starts, waited.size))
        launched, done = np.cumsum(launch_ns), np.cumsum(duration_ns)
        begun = np.repeat(launched[starts] - launch_ns[starts], sizes)
        ends = np.repeat(done[starts + sizes - 1], sizes)
        return cls(launched - begun, ends - done + duration_ns, starts)

    def time_ns(self, host: float, device: float | Floats) -> float | Floats:
        """Its time with these factors on launches and kernels; an array of factors on kernels gives an array."""
        kernels = np.multiply.outer(self.remaining_ns, device)
        launches = host * self.launched_ns
        latest = kernels + (launches[:, None] if kernels.ndim > 1 else launches)
        return np.asarray(np.maximum.reduceat(latest, self.starts, axis=0).sum(axis=0))

    @property
    def device_ns(self) -> float:
        """Time of the kernels alone."""
        return float(self.remaining_ns[self.starts].sum())


@dataclass(frozen=True, slots=True)
class Trace:
    """A request; every array has an entry per kernel.

    Times are those of a tenant alone on its part of the device. Shares are relative to that part, averaged over the
    kernel at full speed.
    """

    duration_ns: Floats
    occupancy: Floats
    """Share of the SMs' capacity for thread blocks that it holds exclusively."""
    dram: Floats
    """Share of the DRAM bandwidth."""
    tensor: Floats
    """Share of the tensor cores' throughput; informational, since tensor cores belong to their SM."""
    launch_ns: Floats
    """Host time of its launch."""
    slot: Ints
    """Its stage; non-decreasing."""
    block_ns: Floats
    """How long each of its thread blocks occupies its SM."""
    holds: Floats
    """Share of the SMs' room for thread blocks that it fills."""
    waited: Floats
    """1 if the host waits for it before the next launch (a copy of inputs from pageable memory, a token), else 0."""
    before_ns: float = 0.0
    """Host time of a request before its first launch."""
    after_ns: float = 0.0
    """Host time of a request after its last kernel."""

    def __post_init__(self) -> None:
        sizes = {
            getattr(self, field.name).size for field in fields(self) if field.name not in ("before_ns", "after_ns")
        }
        if len(sizes) != 1 or sizes == {0}:
            raise ValueError("a trace needs at least one kernel, and one entry per kernel in every column")
        if not (np.all(self.duration_ns > 0) and np.all(self.occupancy > 0) and np.all(self.occupancy <= 1 + 1e-9)):
            raise ValueError("kernels must take time and hold a share of the SMs above 0 and at most 1")

    @property
    def device_ns(self) -> float:
        """Sum of its kernels' times alone."""
        return float(self.duration_ns.sum())

    @property
    def host_ns(self) -> float:
        """Host time of a request."""
        return float(self.launch_ns.sum()) + self.before_ns + self.after_ns

    def alone_ns(self, kernels: int | None = None) -> float:
        """Time of a request alone on its part, as the engine would find it; or until this many kernels are done.

        A kernel starts once it is launched and its predecessor is done, so the latest of all kernels counts; where the
        host waits for a kernel, both begin anew.
        """
        paced = Pace.of(self.launch_ns[:kernels], self.duration_ns[:kernels], self.waited[:kernels])
        return self.before_ns + float(paced.time_ns(1.0, 1.0)) + (self.after_ns if kernels is None else 0.0)

    def slowed(self, factor: float) -> "Trace":
        """The same on a die slower by this factor."""
        if factor == 1.0:
            return self
        return replace(self, duration_ns=self.duration_ns * factor, block_ns=self.block_ns * factor)

    def host_slowed(self, factor: float) -> "Trace":
        """The same with a host that takes longer by a factor."""
        if factor == 1:
            return self
        return replace(
            self, launch_ns=self.launch_ns * factor, before_ns=self.before_ns * factor, after_ns=self.after_ns * factor
        )

    def towards(self, other: "Trace", weight: float) -> "Trace":
        """Interpolate between the clocks of two traces: ``weight`` 0 is this trace, 1 the other."""
        blended = {
            name: getattr(self, name) * (1 - weight) + getattr(other, name) * weight
            for name in ("duration_ns", "occupancy", "dram", "tensor", "block_ns")
        }
        return replace(self, **blended)


def plain_trace(
    *,
    kernels: int,
    device_ns: float,
    occupancy: float = 1.0,
    dram: float = 0.0,
    host_ns: float = 0.0,
) -> Trace:
    """A request of equal kernels, for workloads with known totals only."""
    ones = np.ones(kernels)
    return Trace(
        duration_ns=ones * (device_ns / kernels),
        occupancy=ones * occupancy,
        dram=ones * dram,
        tensor=ones * 0.0,
        launch_ns=ones * (host_ns / kernels),
        slot=np.zeros(kernels, np.int64),
        block_ns=ones * (device_ns / kernels / PLAIN_WAVES),
        holds=ones * occupancy,
        waited=0.0 * ones,
    )


def trace_of(
    kernels: Kernels,
    costs: Costs,
    *,
    domain_sms: int,
    bytes_per_ns: float,
    launch_ns: Floats,
    slot: Ints | None = None,
    before_us: float = 0.0,
    after_us: float = 0.0,
) -> Trace:
    """A request from its kernels and their solo costs.

    Args:
        kernels: In launch order.
        costs: Their costs alone on the tenant's part of the device.
        domain_sms: SMs of its domain.
        bytes_per_ns: DRAM bandwidth of its domain.
        launch_ns: Host time of each kernel's launches.
        slot: Stage of each kernel; default: a single stage.
        before_us: Host time of a request before its first launch.
        after_us: Host time of a request after its last kernel.
    """
    busy = np.minimum(costs.sms / domain_sms, 1.0)
    working = np.clip(costs.duration_ns - costs.fixed_ns, 0.0, None)
    duration = np.maximum(costs.duration_ns, _SHORTEST_NS)
    return Trace(
        duration_ns=duration,
        occupancy=np.clip(busy * (working + FIXED_HOLDS * costs.fixed_ns) / duration, _LEAST, 1.0),
        dram=np.clip(costs.dram_bytes / (duration * bytes_per_ns), 0.0, 1.0),
        tensor=np.where(costs.tensor, np.clip(busy * costs.compute_ns / duration, 0.0, 1.0), 0.0),
        launch_ns=launch_ns,
        slot=np.zeros(len(kernels), np.int64) if slot is None else slot,
        block_ns=working / costs.waves,
        holds=np.minimum(costs.filled / domain_sms, 1.0),
        waited=_inputs(kernels),
        before_ns=before_us * 1e3,
        after_ns=after_us * 1e3,
    )


def _inputs(kernels: Kernels) -> Floats:
    """The initial copies of a request."""
    computes = np.flatnonzero(kernels.kind != TRANSFER)
    first = int(computes[0]) if computes.size else len(kernels)
    return np.asarray(np.arange(len(kernels)) < first, dtype=np.float64)
