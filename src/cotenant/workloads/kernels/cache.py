"""The cache stressor: a working set that fits a cache, swept repeatedly."""

from dataclasses import dataclass

from pydantic import ByteSize, Field

from cotenant.workloads.kernels.numbers import BYTES, FloatName, float_of
from cotenant.workloads.kernels.repetition import elementwise, repeat, repeated
from cotenant.workloads.kernels.room import require_room
from cotenant.workloads.options import Options, read_options, refuse_unused
from cotenant.workloads.protocol import Built, Place, Properties, Stage, WorkloadSpec

KIB = 2**10


class CacheOptions(Options):
    """Size of the working set and number of sweeps."""

    size: ByteSize | None = Field(default=None, ge=64, le=2**40)
    sweeps: int | None = Field(default=None, ge=1, le=1_000_000)


@dataclass(frozen=True, slots=True)
class Cache:
    """Scale a working set in place; a request is `batch` times `sweeps` sweeps.

    The bytes counted are those requested by the cores; while the working set stays in a cache, few of them
    reach memory. A neighbour that evicts it slows the sweeps down, which this measures.
    """

    name: str
    size: int
    sweeps: int
    family: str = "kernel"
    dtype: FloatName = "float32"

    @property
    def about(self) -> str:
        """One line for the catalogue."""
        return f"cache: a working set of `size` ({self.size // KIB}KiB), swept `sweeps` ({self.sweeps}) times"

    def check(self, spec: WorkloadSpec) -> None:
        """Refuse integers, a wrong size, no sweeps."""
        refuse_unused(spec, used={"dtype"})
        float_of(spec)
        read_options(spec, CacheOptions)

    def properties(self, spec: WorkloadSpec) -> Properties:
        """Exact: one multiplication per element and sweep."""
        self.check(spec)
        elements, dtype = self._elements(spec), float_of(spec)
        sweep = elementwise("aten.mul_", dtype, elements, inputs=1, flops_per_element=1)
        return repeated(sweep, self._sweeps(spec), memory_bytes=elements * BYTES[dtype])

    def build(self, spec: WorkloadSpec, place: Place) -> Built:
        """Allocate and touch the working set."""
        self.check(spec)
        elements, dtype, sweeps = self._elements(spec), float_of(spec), self._sweeps(spec)
        require_room(spec, elements * BYTES[dtype], place)
        import torch

        working_set = torch.ones(elements, dtype=getattr(torch, dtype), device=place.torch_device)
        # Multiplying by -1 keeps magnitudes: values never overflow or become slow subnormals.
        return Built(
            stages=(Stage("compute", repeat(lambda: working_set.mul_(-1), sweeps)),),
            dtype=dtype,
            facts={"working_set_bytes": elements * BYTES[dtype], "sweeps": sweeps},
        )

    def _elements(self, spec: WorkloadSpec) -> int:
        return int(read_options(spec, CacheOptions).size or self.size) // BYTES[float_of(spec)]

    def _sweeps(self, spec: WorkloadSpec) -> int:
        return (read_options(spec, CacheOptions).sweeps or self.sweeps) * spec.batch


CACHES = (Cache("cache", 512 * KIB, 2000), Cache("cache-mini", 512 * KIB, 300))
