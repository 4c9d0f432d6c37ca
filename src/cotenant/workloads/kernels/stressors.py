"""Stressors of memory and launches: a = b + s c over large arrays, sweeps of a cache, and many tiny kernels."""

from dataclasses import dataclass

from pydantic import ByteSize, Field

from cotenant.workloads.kernels.gemm import (
    BYTES,
    FloatName,
    elementwise,
    float_of,
    repeat,
    repeated,
    require_room,
)
from cotenant.workloads.protocol import Built, Place, Properties, Stage, WorkloadSpec
from cotenant.workloads.spec_options import Options, read_options, refuse_unused

MIB = 2**20


class TriadOptions(Options):
    """Size of each of the three arrays."""

    size: ByteSize | None = Field(default=None, ge=64, le=2**40)


@dataclass(frozen=True, slots=True)
class Triad:
    """a = b + s c; a request is `batch` passes over the three arrays.

    Bytes are counted as in STREAM: two arrays read, a third written. A core that fetches a line before writing
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
        """Exact: a multiplication and an addition per element."""
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
        """Exact: a multiplication per element and sweep."""
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


ELEMENTS = 64


class LaunchOptions(Options):
    """Number of kernels per item of the batch."""

    kernels: int | None = Field(default=None, ge=1, le=1_000_000)


@dataclass(frozen=True, slots=True)
class LaunchStressor:
    """Tiny kernels in sequence; a request is `batch` times `kernels` of them."""

    name: str
    kernels: int
    family: str = "kernel"
    dtype: FloatName = "float32"

    @property
    def about(self) -> str:
        """One line for the catalogue."""
        return f"launch-bound: `kernels` ({self.kernels}) tiny kernels on {ELEMENTS} elements"

    def check(self, spec: WorkloadSpec) -> None:
        """Refuse integers and a request without kernels."""
        refuse_unused(spec, used={"dtype"})
        float_of(spec)
        read_options(spec, LaunchOptions)

    def properties(self, spec: WorkloadSpec) -> Properties:
        """Exact: a multiplication per element and kernel, which is close to nothing."""
        self.check(spec)
        dtype = float_of(spec)
        kernel = elementwise("aten.mul_", dtype, ELEMENTS, inputs=1, flops_per_element=1)
        return repeated(kernel, self._kernels(spec), memory_bytes=ELEMENTS * BYTES[dtype])

    def build(self, spec: WorkloadSpec, place: Place) -> Built:
        """Allocate the few elements."""
        self.check(spec)
        dtype, kernels = float_of(spec), self._kernels(spec)
        import torch

        few = torch.ones(ELEMENTS, dtype=getattr(torch, dtype), device=place.torch_device)
        return Built(
            stages=(Stage("compute", repeat(lambda: few.mul_(-1), kernels)),), dtype=dtype, facts={"kernels": kernels}
        )

    def _kernels(self, spec: WorkloadSpec) -> int:
        return (read_options(spec, LaunchOptions).kernels or self.kernels) * spec.batch


LAUNCHES = (LaunchStressor("launch", 5000), LaunchStressor("launch-mini", 1500))
