"""What a workload needs of a GPU's memory, and the largest batch that fits.

Assumptions, which no dry run can see: the peak of the dry run already has a workspace of the size of its input for each
convolution; a twentieth of what tensors take is lost to the allocator's rounding and fragmentation; the CUDA context
takes what the GPU's entry says.
"""

from collections.abc import Callable
from dataclasses import dataclass

from cotenant.devices.simulated.catalogue.spec import GpuSpec
from cotenant.errors import DoesNotFit
from cotenant.workloads.protocol import Properties, WorkloadSpec

FRAGMENTATION = 0.05
"""Share of the tensors' bytes that the allocator loses."""
_SMALL, _LARGE = 64, 128
"""Batches at which memory is looked at; it is linear in the batch."""
_LARGEST_POWER = 24

Describe = Callable[[WorkloadSpec], Properties]


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes that one tenant takes on a GPU."""

    weights: int
    activations: int
    """Inputs, activations, caches, gradients, workspace: all that lives at the peak beside the weights."""
    lost: int
    """To rounding and fragmentation."""
    context: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.activations + self.lost + self.context


@dataclass(frozen=True, slots=True)
class MaxBatch:
    """The largest batch that fits."""

    batch: int
    """0: not even one item does."""
    power_of_two: int
    """The largest power of two that fits; 0: none."""
    per_item_bytes: float
    fixed_bytes: float
    """Weights and whatever else doesn't grow with the batch, context included."""
    available_bytes: int


def need(properties: Properties, gpu: GpuSpec) -> Need | None:
    """What a workload takes; None: its memory can't be known before it runs."""
    if properties.peak_memory_bytes is None:
        return None
    weights = properties.weight_bytes or 0
    activations = max(0, properties.peak_memory_bytes - weights)
    lost = int((weights + activations) * FRAGMENTATION)
    return Need(weights, activations, lost, int(gpu.context_mib * 2**20))


def max_batch(spec: WorkloadSpec, gpu: GpuSpec, describe: Describe, *, memory_bytes: int | None = None) -> MaxBatch:
    """The largest batch of a workload that fits on a GPU, or on a part of it with this much memory.

    Args:
        spec: The workload; its batch is ignored.
        gpu: Where.
        describe: Gives the properties of a spec, e.g. `workloads.find(name).properties`.
        memory_bytes: Memory of a part of the GPU; all of it if None.

    Raises:
        DoesNotFit: Its memory can't be known before it runs.
    """
    available = memory_bytes or gpu.memory_bytes
    small, large = (need(describe(spec.model_copy(update={"batch": batch})), gpu) for batch in (_SMALL, _LARGE))
    if small is None or large is None:
        raise DoesNotFit(
            f"the memory of {spec.name} can't be known before it runs, so neither can its largest batch",
            hint="give the batch yourself, or take a workload of the catalogue",
        )
    per_item = (large.total - small.total) / (_LARGE - _SMALL)
    fixed = small.total - per_item * _SMALL
    batch = max(0, int((available - fixed) / per_item)) if per_item > 0 else 0
    power = max((2**exponent for exponent in range(_LARGEST_POWER) if 2**exponent <= batch), default=0)
    return MaxBatch(batch, power, per_item, fixed, available)
