"""Inputs for a model file, which says nothing (TorchScript) or little (ONNX) about its inputs."""

from typing import Literal

import numpy as np
import numpy.typing as npt

InputDtype = Literal["float64", "float32", "float16", "int64", "int32", "int8", "uint8", "bool"]
Array = npt.NDArray[np.generic]


def made_up(shape: tuple[int, ...], dtype: InputDtype, *, integers_below: int, seed: int) -> Array:
    """Standard normal numbers, integers from 0 to below the limit, or random booleans; the same for the same seed."""
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(np.bool_)
    if dtype.startswith("float"):
        return random.standard_normal(shape).astype(dtype)
    largest = int(np.iinfo(dtype).max)
    return random.integers(0, min(integers_below, largest), shape).astype(dtype)
