"""Square matrix products: the compute-bound stressor, in four number formats."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field, field_validator

from cotenant.errors import DoesNotFit, WorkloadError
from cotenant.workloads.protocol import Built, Operator, Place, Properties, Stage, WorkloadSpec
from cotenant.workloads.spec_options import Options, read_options, refuse_unused

if TYPE_CHECKING:
    import torch


# Common to all kernels: a request repeats an operator.

FloatName = Literal["float64", "float32", "float16", "bfloat16"]

BYTES: dict[FloatName, int] = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}


def float_of(spec: WorkloadSpec) -> FloatName:
    """The spec's number format, float32 by default; integers are refused."""
    if spec.dtype == "int8":
        raise WorkloadError(
            f"`{spec.name}` computes with floating point numbers, not int8", hint=f"use one of {', '.join(BYTES)}"
        )
    return spec.dtype or "float32"


def elementwise(name: str, dtype: FloatName, elements: int, *, inputs: int, flops_per_element: float) -> Operator:
    """An operator that reads ``inputs`` arrays of the same length and writes another."""
    array_bytes = float(elements * BYTES[dtype])
    return Operator(
        name=name,
        dtype=dtype,
        shapes=((elements,),) * inputs,
        out_shapes=((elements,),),
        flops=flops_per_element * elements,
        bytes_read=array_bytes * inputs,
        bytes_written=array_bytes,
    )


def repeated(operator: Operator, times: int, *, memory_bytes: int) -> Properties:
    """The cost of a request that runs this operator ``times`` times."""
    flops = operator.flops * times
    return Properties(
        params=0,
        weight_bytes=0,
        flops=flops,
        bytes_moved=(operator.bytes_read + operator.bytes_written) * times,
        peak_memory_bytes=memory_bytes,
        flops_by_operator={operator.name: flops},
        flops_by_dtype={operator.dtype: flops},
        operators=(operator,) * times,
    )


def repeat(once: Callable[[], Any], times: int) -> Callable[[Any], Any]:
    """A stage that repeats a call ``times`` times and returns the last result."""
    rounds = range(times)

    def run(_: Any) -> Any:
        result = None
        for _round in rounds:
            result = once()
        return result

    return run


def require_room(spec: WorkloadSpec, needed_bytes: int, place: Place) -> None:
    """Refuse what exceeds the memory now free on the place."""
    free = _free_bytes(place.torch_device)
    if free is not None and needed_bytes > free:
        raise DoesNotFit(
            f"`{spec.name}` needs {needed_bytes / 2**30:.2f} GiB, but {place.torch_device} has {free / 2**30:.2f} GiB "
            "free",
            hint="lower `params: {size: ...}`",
        )


def _free_bytes(torch_device: str) -> int | None:
    if torch_device.startswith("cpu"):
        import psutil

        return int(psutil.virtual_memory().available)
    if torch_device.startswith("cuda"):
        import torch

        return int(torch.cuda.mem_get_info(torch_device)[0])
    return None


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
        """Exact: 2 n^3 operations per product; reads two matrices, writes a third."""
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


FORMS = "zeros, constant, uniform, normal, sorted, sparse(share of zeros)"
_NAMES = ("zeros", "constant", "uniform", "normal", "sorted", "sparse")
_FORM = re.compile(r"^\s*([a-z]+)\s*(?:\(\s*(\d+(?:\.\d+)?)\s*(%?)\s*\))?\s*$")


class Distribution(NamedTuple):
    """The distribution of an input's entries.

    `zeros`; `constant`: all 1; `uniform` over [-1, 1); `normal`: mean 0, deviation 1; `sorted`: the quantiles of that
    normal, rising along the rows; `sparse(90%)`: normal, but each entry is 0 with that probability.
    """

    name: str
    zeros_share: float = 0.0

    def __str__(self) -> str:
        """Its text form."""
        return f"sparse({self.zeros_share * 100:g}%)" if self.name == "sparse" else self.name

    @classmethod
    def parse(cls, text: str) -> "Distribution":
        """Parse the text form.

        Raises:
            ValueError: It has none of the forms.
        """
        match = _FORM.match(text)
        if match is None or match.group(1) not in _NAMES or (match.group(2) and match.group(1) != "sparse"):
            raise ValueError(f"expected one of {FORMS}, e.g. sparse(90%)")
        if match.group(1) != "sparse":
            return cls(match.group(1))
        if match.group(2) is None:
            raise ValueError("sparse needs the share of zeros, e.g. sparse(90%)")
        share = float(match.group(2)) / (100 if match.group(3) else 1)
        if not 0 <= share <= 1:
            raise ValueError("the share of zeros lies between 0 and 1, or 0% and 100%")
        return cls("sparse", share)


def matrix(
    distribution: Distribution, rows: int, columns: int, dtype: "torch.dtype", generator: "torch.Generator"
) -> "torch.Tensor":
    """A matrix in host memory; needs only a row of extra memory."""
    import torch

    made = torch.empty(rows, columns, dtype=dtype)
    match distribution.name:
        case "zeros":
            return made.zero_()
        case "constant":
            return made.fill_(1)
        case "uniform":
            return made.uniform_(-1, 1, generator=generator)
        case "normal":
            return made.normal_(generator=generator)
        case "sorted":
            for number, row in enumerate(made):
                rank = torch.arange(number * columns, (number + 1) * columns, dtype=torch.float64)
                row.copy_(((rank + 0.5) * (2 / made.numel()) - 1).erfinv_().mul_(math.sqrt(2)))
            return made
        case _:
            made.normal_(generator=generator)
            for row in made:
                row.masked_fill_(torch.rand(columns, generator=generator) < distribution.zeros_share, 0)
            return made
