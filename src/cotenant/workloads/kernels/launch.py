"""The launch-bound stressor: many kernels so small that launching dominates their cost."""

from dataclasses import dataclass

from pydantic import Field

from cotenant.workloads.kernels.numbers import BYTES, FloatName, float_of
from cotenant.workloads.kernels.repetition import elementwise, repeat, repeated
from cotenant.workloads.options import Options, read_options, refuse_unused
from cotenant.workloads.protocol import Built, Place, Properties, Stage, WorkloadSpec

ELEMENTS = 64


class LaunchOptions(Options):
    """Number of kernels per item of the batch."""

    kernels: int | None = Field(default=None, ge=1, le=1_000_000)


@dataclass(frozen=True, slots=True)
class Launch:
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
        """Exact: one multiplication per element and kernel, which is close to nothing."""
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


LAUNCHES = (Launch("launch", 5000), Launch("launch-mini", 1500))
