"""Convert between torch tensors and bytes."""

import numpy as np
import torch

from cotenant.serving.processes.parcel import Parcel, Tensor

_TYPES = {
    "BOOL": torch.bool, "UINT8": torch.uint8, "INT8": torch.int8, "INT16": torch.int16, "INT32": torch.int32,
    "INT64": torch.int64, "FP16": torch.float16, "BF16": torch.bfloat16, "FP32": torch.float32, "FP64": torch.float64,
}  # fmt: skip
_NAMES = {value: name for name, value in _TYPES.items()}


def datatype_of(dtype: torch.dtype) -> str:
    """The Open Inference Protocol's name of a type."""
    return _NAMES[dtype]


def tensors_of(parcel: Parcel) -> dict[str, torch.Tensor]:
    """A parcel's tensors, copied out of it."""
    return {
        one.name: torch.frombuffer(bytearray(one.data), dtype=_TYPES[one.datatype]).view(one.shape)
        for one in parcel.tensors
    }


def parcel_of(tensors: dict[str, torch.Tensor]) -> Parcel:
    """Tensors of the host as a parcel."""
    return Parcel(tuple(_tensor(name, value.contiguous()) for name, value in tensors.items()))


def _tensor(name: str, value: torch.Tensor) -> Tensor:
    if not value.numel():
        data = memoryview(b"")
    elif value.dtype is torch.bfloat16:  # unknown to numpy
        data = value.reshape(-1).view(torch.uint8).numpy().data
    else:
        data = value.numpy().reshape(-1).view(np.uint8).data
    return Tensor(name, _NAMES[value.dtype], tuple(value.shape), data)
