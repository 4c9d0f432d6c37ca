"""Tables of language-model measurements, with the rows that constants were fitted on marked."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cotenant.devices.simulated.catalogue import find_gpu
from cotenant.errors import DataError
from cotenant.prediction.engines.language_model import LanguageModel, language_model
from cotenant.prediction.gpu import GpuSpec
from cotenant.workloads import find
from cotenant.workloads.models.workload import ModelWorkload
from validation.reading import HINT, AbsentData

GPUS = {"a100": "a100-sxm4-80gb", "h100": "h100-sxm5-80gb"}
FILES = {"a100": "llm/a100_vllm0.14_{}.parquet", "h100": "llm/h100_vllm0.19_{}.parquet"}
KERNELS = "vLLM 0.14 on an A100-SXM4-80GB and 0.19 on an H100-SXM5-80GB, ai-dynamo/aiconfigurator, Apache-2.0"


def gpu_of(name: str) -> GpuSpec:
    """The GPU a table was measured on."""
    return find_gpu(GPUS[name])


def read(data: Path, file: str, columns: Sequence[str]) -> Any:
    """A Parquet or CSV file below ``data`` as a data frame.

    Raises:
        AbsentData: There is no such file.
        DataError: It can't be read, or lacks a column.
    """
    path = data / file
    if not path.is_file():
        raise AbsentData(f"There is no {file} in the folder of measured data.", hint=HINT)
    try:
        frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    except (OSError, ValueError) as problem:
        raise DataError(f"{file} can't be read: {problem}.", hint=HINT) from problem
    missing = [column for column in columns if column not in frame]
    if missing:
        raise DataError(f"{file} has no column {', '.join(map(repr, missing))}.", hint=HINT)
    if not len(frame):
        raise DataError(f"{file} has no rows.", hint=HINT)
    return frame


def every_second(frame: Any, columns: Sequence[str]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Shapes that constants were fitted on: half of the distinct values of these columns."""
    keys = frame[list(columns)].astype(str).agg("|".join, axis=1)
    return np.asarray(pd.util.hash_pandas_object(keys, index=False) % 2 == 0)


def model_of(name: str) -> LanguageModel:
    """A model of the catalogue as an engine runs it."""
    workload = find(name)
    assert isinstance(workload, ModelWorkload)
    return language_model(name, workload.entry.config)
