"""Time-slicing on a device that runs one tenant's kernels at a time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Slicing:
    """Time-slicing: kernels of different tenants never run at once."""

    slice_ns: float
    interrupt_ns: float
    """Time lost when a running tenant is interrupted."""
    yield_ns: float
    """Time lost when it had nothing to run."""
