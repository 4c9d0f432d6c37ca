"""Convert between torch tensors and bytes."""

from typing import Any

import numpy as np
import torch

from cotenant.serving.processes.parcel import Parcel, Tensor

_TYPES = {
    "BOOL": torch.bool, "UINT8": torch.uint8, "INT8": torch.int8, "INT16": torch.int16, "INT32": torch.int32,
    "INT64": torch.int64, "FP16": torch.float16, "BF16": torch.bfloat16, "FP32": torch.float32, "FP64": torch.float64,
}  # fmt: skip
_ARRAYS: dict[str, type[np.generic]] = {
    "BOOL": np.bool_, "UINT8": np.uint8, "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64,
    "FP16": np.float16, "BF16": np.int16, "FP32": np.float32, "FP64": np.float64,
}  # fmt: skip
_NAMES = {value: name for name, value in _TYPES.items()}


def datatype_of(dtype: torch.dtype) -> str:
    """The Open Inference Protocol's name of a type."""
    return _NAMES[dtype]


def tensors_of(parcel: Parcel) -> dict[str, torch.Tensor]:
    """A parcel's tensors, copied out of it."""
    return {one.name: _copied(one) for one in parcel.tensors}


def _copied(one: Tensor) -> torch.Tensor:
    # By way of numpy, which takes type and shape in one step: half the time of torch's own function.
    array: np.ndarray[Any, Any] = np.ndarray(one.shape, _ARRAYS[one.datatype], bytearray(one.data))
    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if one.datatype == "BF16" else tensor


def parcel_of(tensors: dict[str, torch.Tensor]) -> Parcel:
    """Tensors of the host as a parcel."""
    return Parcel(tuple(_tensor(name, value.contiguous()) for name, value in tensors.items()))


def _tensor(name: str, value: torch.Tensor) -> Tensor:
    data = memoryview(b"")
    if value.numel():
        raw = value.view(torch.int16) if value.dtype is torch.bfloat16 else value  # unknown to numpy
        data = raw.numpy().data.cast("B")
    return Tensor(name, _NAMES[value.dtype], tuple(value.shape), data)
