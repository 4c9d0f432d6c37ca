"""GPU memory of a workload, and the largest batch: memory is linear in the batch, so two dry runs determine it."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Literal

from cotenant.errors import DoesNotFit
from cotenant.prediction.gpu import GpuSpec
from cotenant.workloads.protocol import Properties, WorkloadSpec

_SMALL, _LARGE = 64, 128
"""Batches of the dry runs."""
INDEX_LIMIT = 2**31 - 1
"""Largest number of elements per tensor for kernels with 32-bit indices."""

Describe = Callable[[WorkloadSpec], Properties]
Limit = Literal["memory", "32-bit index"]


@dataclass(frozen=True, slots=True)
class Room:
    """A device's memory for a tenant, and its overheads."""

    available_bytes: int
    lost_share: float = 0.0
    """Fraction of the tensors' bytes lost to the allocator's rounding and fragmentation."""
    reserved_bytes: int = 0
    """Used by the device's runtime, e.g. a CUDA context."""
    indexed_32_bit: bool = False
    """Kernels index tensors with 32 bits."""
    holds_inputs: bool = False
    """Request inputs are queued in the same memory."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth of a workload's memory with its batch, without the device's overheads."""

    weight_bytes: int
    fixed_bytes: float
    """Weights and everything else that doesn't grow."""
    per_item_bytes: float
    inputs_per_item_bytes: float
    fixed_elements: float
    elements_per_item: float
    """Elements of the largest tensor."""

    def per_item_in(self, room: Room) -> float:
        """Bytes per additional item on such a device."""
        return self.per_item_bytes + (self.inputs_per_item_bytes if room.holds_inputs else 0.0)


@dataclass(frozen=True, slots=True)
class BatchLimit:
    """The largest batch predicted to fit."""

    batch: int
    """0 if not even one item fits."""
    limit: Limit
    """The limiting factor."""
    growth: Growth
    room: Room

    @property
    def power_of_two(self) -> int:
        """The largest power of two that fits; 0 if none."""
        return 1 << (self.batch.bit_length() - 1) if self.batch else 0

    def bytes_at(self, batch: int) -> float:
        """Bytes of a batch, overheads included."""
        growth, room = self.growth, self.room
        tensors = growth.fixed_bytes + growth.per_item_in(room) * batch
        return tensors * (1 + room.lost_share) + room.reserved_bytes


def growth_of(spec: WorkloadSpec, describe: Describe) -> Growth:
    """Memory growth, from dry runs at two sizes.

    Args:
        spec: The workload; its batch is ignored.
        describe: Returns the properties of a spec, e.g. `workloads.find(name).properties`.

    Raises:
        DoesNotFit: Its memory is unknown before it runs.
    """
    small, large = (describe(spec.model_copy(update={"batch": batch})) for batch in (_SMALL, _LARGE))
    if small.peak_memory_bytes is None or large.peak_memory_bytes is None:
        raise DoesNotFit(
            f"the memory of {spec.name} is unknown before it runs, and so is its largest batch",
            hint="set the batch explicitly, or use a model from `cotenant workloads`",
        )
    per_item = (large.peak_memory_bytes - small.peak_memory_bytes) / (_LARGE - _SMALL)
    elements = [_largest_tensor(properties) for properties in (small, large)]
    per_item_elements = (elements[1] - elements[0]) / (_LARGE - _SMALL)
    return Growth(
        weight_bytes=small.weight_bytes or 0,
        fixed_bytes=small.peak_memory_bytes - per_item * _SMALL,
        per_item_bytes=per_item,
        inputs_per_item_bytes=(large.input_bytes or 0) / _LARGE,
        fixed_elements=elements[0] - per_item_elements * _SMALL,
        elements_per_item=per_item_elements,
    )


def predict(growth: Growth, room: Room) -> BatchLimit:
    """The largest batch of such a workload on such a device."""
    tensors = (room.available_bytes - room.reserved_bytes) / (1 + room.lost_share)
    by_memory = _most(tensors - growth.fixed_bytes, growth.per_item_in(room))
    by_index = _most(INDEX_LIMIT - growth.fixed_elements, growth.elements_per_item)
    if room.indexed_32_bit and by_index < by_memory:
        return BatchLimit(by_index, "32-bit index", growth, room)
    return BatchLimit(by_memory, "memory", growth, room)


def _most(left: float, each: float) -> int:
    if left <= 0:
        return 0
    return int(left / each) if each > 0 else INDEX_LIMIT


def _largest_tensor(properties: Properties) -> int:
    return max((prod(shape) for operator in properties.operators for shape in operator.out_shapes), default=0)


# --- Memory needed by a workload
#
# Assumptions that a dry run can't check: its peak already includes a workspace the size of the input for each
# convolution; a twentieth of the tensors' bytes is lost to the allocator's rounding and fragmentation; the CUDA context
# has the size in the GPU's entry.

FRAGMENTATION = 0.05
"""Fraction of the tensors' bytes lost by the allocator."""


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes of a tenant on a GPU."""

    weights: int
    activations: int
    """Inputs, activations, caches, gradients and workspace: everything besides the weights at the peak."""
    lost: int
    """Lost to rounding and fragmentation."""
    context: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.activations + self.lost + self.context


def need(properties: Properties, gpu: GpuSpec) -> Need | None:
    """Memory of a workload; None if unknown before it runs."""
    if properties.peak_memory_bytes is None:
        return None
    weights = properties.weight_bytes or 0
    activations = max(0, properties.peak_memory_bytes - weights)
    lost = int((weights + activations) * FRAGMENTATION)
    return Need(weights, activations, lost, int(gpu.context_mib * 2**20))
