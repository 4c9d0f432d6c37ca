"""What a workload needs of a GPU's memory.

Assumptions, which no dry run can see: the peak of the dry run already has a workspace of the size of its input for each
convolution; a twentieth of what tensors take is lost to the allocator's rounding and fragmentation; the CUDA context
takes what the GPU's entry says.
"""

from dataclasses import dataclass

from cotenant.prediction.gpu import GpuSpec
from cotenant.workloads.protocol import Properties

FRAGMENTATION = 0.05
"""Share of the tensors' bytes that the allocator loses."""


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


def need(properties: Properties, gpu: GpuSpec) -> Need | None:
    """What a workload takes; None: its memory can't be known before it runs."""
    if properties.peak_memory_bytes is None:
        return None
    weights = properties.weight_bytes or 0
    activations = max(0, properties.peak_memory_bytes - weights)
    lost = int((weights + activations) * FRAGMENTATION)
    return Need(weights, activations, lost, int(gpu.context_mib * 2**20))
