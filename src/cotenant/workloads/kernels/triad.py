"""The bandwidth stressor: a = b + s c over arrays far larger than any cache."""

from dataclasses import dataclass

from pydantic import ByteSize, Field

from cotenant.workloads.kernels.numbers import BYTES, FloatName, float_of
from cotenant.workloads.kernels.repetition import elementwise, repeat, repeated
from cotenant.workloads.kernels.room import require_room
from cotenant.workloads.options import Options, read_options, refuse_unused
from cotenant.workloads.protocol import Built, Place, Properties, Stage, WorkloadSpec

MIB = 2**20


class TriadOptions(Options):
    """Size of each of the three arrays."""

    size: ByteSize | None = Field(default=None, ge=64, le=2**40)


@dataclass(frozen=True, slots=True)
class Triad:
    """a = b + s c; a request is `batch` passes over the three arrays.

    Bytes are counted as in STREAM: two arrays read, one written. A core that fetches a line before writing
    it moves a third more.
    """

    name: str
    size: int
    family: str = "kernel"
    dtype: FloatName = "float32"

    @property
    def about(self) -> str:
        """One line for the catalogue."""
        return f"memory bandwidth: a = b + s c, three arrays of `size` ({self.size // MIB}MiB)"

    def check(self, spec: WorkloadSpec) -> None:
        """Refuse integers and a wrong size."""
        refuse_unused(spec, used={"dtype"})
        float_of(spec)
        read_options(spec, TriadOptions)

    def properties(self, spec: WorkloadSpec) -> Properties:
        """Exact: one multiplication and one addition per element."""
        self.check(spec)
        elements = self._elements(spec)
        dtype = float_of(spec)
        once = elementwise("aten.add", dtype, elements, inputs=2, flops_per_element=2)
        return repeated(once, spec.batch, memory_bytes=3 * elements * BYTES[dtype])

    def build(self, spec: WorkloadSpec, place: Place) -> Built:
        """Allocate and touch the arrays."""
        self.check(spec)
        elements, dtype = self._elements(spec), float_of(spec)
        require_room(spec, 3 * elements * BYTES[dtype], place)
        import torch

        a, b, c = (torch.ones(elements, dtype=getattr(torch, dtype), device=place.torch_device) for _ in range(3))
        return Built(
            stages=(Stage("compute", repeat(lambda: torch.add(b, c, alpha=3.0, out=a), spec.batch)),),
            dtype=dtype,
            facts={"array_bytes": elements * BYTES[dtype]},
        )

    def _elements(self, spec: WorkloadSpec) -> int:
        return int(read_options(spec, TriadOptions).size or self.size) // BYTES[float_of(spec)]


TRIADS = (Triad("triad", 256 * MIB), Triad("triad-mini", 32 * MIB))
