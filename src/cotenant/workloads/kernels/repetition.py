"""Common part of all kernels: a request repeats one operator."""

from collections.abc import Callable
from typing import Any, Literal

from cotenant.errors import DoesNotFit, WorkloadError
from cotenant.workloads.protocol import Operator, Place, Properties, WorkloadSpec

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
    """An operator that reads ``inputs`` arrays of the same length and writes one."""
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
