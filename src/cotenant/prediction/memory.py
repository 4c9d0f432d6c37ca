"""GPU memory needed by a workload.

Assumptions that a dry run can't check: its peak already includes a workspace the size of the input for each
convolution; a twentieth of the tensors' bytes is lost to the allocator's rounding and fragmentation; the CUDA context
has the size in the GPU's entry.
"""

from dataclasses import dataclass

from cotenant.prediction.gpu import GpuSpec
from cotenant.workloads.protocol import Properties

FRAGMENTATION = 0.05
"""Fraction of the tensors' bytes lost by the allocator."""


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes of one tenant on a GPU."""

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
