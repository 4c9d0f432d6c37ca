"""Common part of all kernels: a request repeats one operator."""

from collections.abc import Callable
from typing import Any

from cotenant.workloads.kernels.numbers import BYTES, FloatName
from cotenant.workloads.protocol import Operator, Properties


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
