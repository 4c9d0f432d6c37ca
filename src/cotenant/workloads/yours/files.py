"""A model file on disk: its presence and identity."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cotenant import opening
from cotenant.errors import WorkloadError


def existing_file(name: str) -> Path:
    """The file the name refers to.

    Raises:
        WorkloadError: There is none, or it is a directory.
    """
    path = Path(name).expanduser()
    if not path.exists():
        raise WorkloadError(f"there is no file `{name}` (looked from {Path.cwd()})")
    if not path.is_file():
        raise WorkloadError(f"`{name}` is not a file")
    return path


def identity(path: Path) -> Mapping[str, Any]:
    """What to record, so that a reader can tell whether it was the same file."""
    with opening.open_file(path, most=opening.TABLE_BYTES) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"file": str(path.resolve()), "file_bytes": path.stat().st_size, "sha256": digest}


def first_line(error: Exception) -> str:
    """The first line of a library's error, for a sentence."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300].rstrip(".")


# A TorchScript file says nothing about its inputs, an ONNX file little, so they are made up.

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
