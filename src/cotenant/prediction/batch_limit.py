"""The largest batch before anything is run: memory is linear in the batch, so two dry runs tell all of it."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Literal

from cotenant.errors import DoesNotFit
from cotenant.workloads.protocol import Properties, WorkloadSpec

_SMALL, _LARGE = 64, 128
"""Batches at which memory is looked at."""
INDEX_LIMIT = 2**31 - 1
"""Elements of one tensor that kernels with 32-bit indices can address."""

Describe = Callable[[WorkloadSpec], Properties]
Limit = Literal["memory", "32-bit index"]


@dataclass(frozen=True, slots=True)
class Room:
    """What a device has for one tenant, and what it takes for itself."""

    available_bytes: int
    lost_share: float = 0.0
    """Of the tensors' bytes, lost to the allocator's rounding and fragmentation."""
    reserved_bytes: int = 0
    """By the device's runtime, e.g. a CUDA context."""
    indexed_32_bit: bool = False
    """Its kernels address a tensor's elements with 32 bits."""
    holds_inputs: bool = False
    """Requests' inputs wait in the same memory."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How a workload's memory grows with its batch, without what the device adds."""

    weight_bytes: int
    fixed_bytes: float
    """Weights and whatever else doesn't grow."""
    per_item_bytes: float
    inputs_per_item_bytes: float
    fixed_elements: float
    elements_per_item: float
    """Of the largest tensor."""

    def per_item_in(self, room: Room) -> float:
        """Bytes that one more item takes there."""
        return self.per_item_bytes + (self.inputs_per_item_bytes if room.holds_inputs else 0.0)


@dataclass(frozen=True, slots=True)
class Prediction:
    """The largest batch that should fit."""

    batch: int
    """0: not even one item does."""
    limit: Limit
    """What ends it."""
    growth: Growth
    room: Room

    @property
    def power_of_two(self) -> int:
        """The largest power of two that fits; 0: none."""
        return 1 << (self.batch.bit_length() - 1) if self.batch else 0

    def bytes_at(self, batch: int) -> float:
        """All that a batch takes, with what is lost and reserved."""
        growth, room = self.growth, self.room
        tensors = growth.fixed_bytes + growth.per_item_in(room) * batch
        return tensors * (1 + room.lost_share) + room.reserved_bytes


def growth_of(spec: WorkloadSpec, describe: Describe) -> Growth:
    """How memory grows, from dry runs at two sizes.

    Args:
        spec: The workload; its batch is ignored.
        describe: Gives the properties of a spec, e.g. `workloads.find(name).properties`.

    Raises:
        DoesNotFit: Its memory can't be known before it runs.
    """
    small, large = (describe(spec.model_copy(update={"batch": batch})) for batch in (_SMALL, _LARGE))
    if small.peak_memory_bytes is None or large.peak_memory_bytes is None:
        raise DoesNotFit(
            f"the memory of {spec.name} can't be known before it runs, so neither can its largest batch",
            hint="give the batch yourself, or take a model of `cotenant workloads`",
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


def predict(growth: Growth, room: Room) -> Prediction:
    """The largest batch of such a workload in such a room."""
    tensors = (room.available_bytes - room.reserved_bytes) / (1 + room.lost_share)
    by_memory = _most(tensors - growth.fixed_bytes, growth.per_item_in(room))
    by_index = _most(INDEX_LIMIT - growth.fixed_elements, growth.elements_per_item)
    if room.indexed_32_bit and by_index < by_memory:
        return Prediction(by_index, "32-bit index", growth, room)
    return Prediction(by_memory, "memory", growth, room)


def _most(left: float, each: float) -> int:
    if left <= 0:
        return 0
    return int(left / each) if each > 0 else INDEX_LIMIT


def _largest_tensor(properties: Properties) -> int:
    return max((prod(shape) for one in properties.operators for shape in one.out_shapes), default=0)
