"""Square matrix products: the compute-bound stressor, in four number formats."""

from dataclasses import dataclass

from pydantic import Field, field_validator

from cotenant.errors import WorkloadError
from cotenant.workloads.kernels.inputs import Distribution, matrix
from cotenant.workloads.kernels.numbers import BYTES, FloatName
from cotenant.workloads.kernels.repetition import repeat, repeated
from cotenant.workloads.kernels.room import require_room
from cotenant.workloads.options import Options, read_options, refuse_unused
from cotenant.workloads.protocol import Built, Operator, Place, Properties, Stage, WorkloadSpec

_GEMM_OF: dict[str, str] = {"float32": "sgemm", "float64": "dgemm", "float16": "hgemm", "bfloat16": "bgemm"}


class GemmOptions(Options):
    """Size and content of the matrices."""

    size: int | None = Field(default=None, ge=1, le=131_072)
    inputs: str = "normal"

    @field_validator("inputs")
    @classmethod
    def _known(cls, text: str) -> str:
        return str(Distribution.parse(text))


@dataclass(frozen=True, slots=True)
class Gemm:
    """C = A B with square matrices; a request is `batch` products in sequence."""

    name: str
    dtype: FloatName
    size: int
    family: str = "kernel"

    @property
    def about(self) -> str:
        """One line for the catalogue."""
        return f"{self.dtype} matrix product, `size` ({self.size}) squared, `inputs` (normal) by distribution"

    def check(self, spec: WorkloadSpec) -> None:
        """Refuse another number format, a wrong size, an unknown distribution."""
        if spec.dtype not in (None, self.dtype):
            other = _GEMM_OF.get(str(spec.dtype))
            raise WorkloadError(
                f"`{self.name}` multiplies {self.dtype} matrices, but the tenant sets `dtype: {spec.dtype}`",
                hint=f"use `{other}{'-mini' if self.name.endswith('-mini') else ''}`"
                if other
                else f"the products are {', '.join(_GEMM_OF.values())}",
            )
        refuse_unused(spec, used={"dtype"})
        read_options(spec, GemmOptions)

    def properties(self, spec: WorkloadSpec) -> Properties:
        """Exact: 2 n^3 operations per product; two matrices read, one written."""
        self.check(spec)
        n = self._size(spec)
        matrix_bytes = n * n * BYTES[self.dtype]
        product = Operator(
            name="aten.mm",
            dtype=self.dtype,
            shapes=((n, n), (n, n)),
            out_shapes=((n, n),),
            flops=2.0 * n**3,
            bytes_read=2.0 * matrix_bytes,
            bytes_written=float(matrix_bytes),
        )
        return repeated(product, spec.batch, memory_bytes=3 * matrix_bytes)

    def build(self, spec: WorkloadSpec, place: Place) -> Built:
        """Make the inputs, seeded and the same on every device, and allocate the product."""
        self.check(spec)
        require_room(spec, 3 * self._size(spec) ** 2 * BYTES[self.dtype], place)
        import torch

        n = self._size(spec)
        inputs = Distribution.parse(read_options(spec, GemmOptions).inputs)
        dtype: torch.dtype = getattr(torch, self.dtype)
        generator = torch.Generator().manual_seed(spec.seed)
        a = matrix(inputs, n, n, dtype, generator).to(place.torch_device)
        b = matrix(inputs, n, n, dtype, generator).to(place.torch_device)
        product = torch.empty_like(a)
        return Built(
            stages=(Stage("compute", repeat(lambda: torch.mm(a, b, out=product), spec.batch)),),
            dtype=self.dtype,
            facts={"size": n, "inputs": str(inputs)},
        )

    def _size(self, spec: WorkloadSpec) -> int:
        return read_options(spec, GemmOptions).size or self.size


GEMMS = (
    Gemm("sgemm", "float32", 1024),
    Gemm("dgemm", "float64", 1024),
    Gemm("hgemm", "float16", 1024),
    Gemm("bgemm", "bfloat16", 1024),
    Gemm("sgemm-mini", "float32", 448),
    Gemm("dgemm-mini", "float64", 320),
    # CPUs without half-precision units run these two in a slow loop: far smaller for the same few milliseconds.
    Gemm("hgemm-mini", "float16", 128),
    Gemm("bgemm-mini", "bfloat16", 128),
)
