"""The number formats of the kernels."""

from typing import Literal

from cotenant.errors import WorkloadError
from cotenant.workloads.protocol import WorkloadSpec

FloatName = Literal["float64", "float32", "float16", "bfloat16"]

BYTES: dict[FloatName, int] = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}


def float_of(spec: WorkloadSpec) -> FloatName:
    """The spec's number format, float32 by default; integers are refused."""
    if spec.dtype == "int8":
        raise WorkloadError(
            f"`{spec.name}` computes with floating point numbers, not int8", hint=f"use one of {', '.join(BYTES)}"
        )
    return spec.dtype or "float32"
