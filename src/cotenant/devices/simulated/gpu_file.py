"""A GPU of the catalogue with what was measured on it, in a file that every verb takes as a device: `sim:mine.yaml`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from cotenant.devices.simulated.catalogue.find import SUFFIXES, gpu_names, read_description
from cotenant.devices.simulated.solo_times import (
    Calibration,
    EngineCalibration,
    KernelCalibration,
    written_time,
)
from cotenant.errors import DeviceError
from cotenant.prediction.calibration import COLUMNS, Table
from cotenant.prediction.gpu import GpuSpec
from cotenant.prediction.kernels import Bools
from cotenant.tenancy.device_names import DeviceName

_READERS = {".parquet": "read_parquet", ".csv": "read_csv"}
_HINT = "a table is a .parquet or .csv file with the columns op_name, device, latency (ms) and those of its operation"
_WORDS = ("dtype", "distribution")


def calibration_text(calibration: Calibration | EngineCalibration | KernelCalibration, path: Path) -> str:
    """What to write to this file: rows for `run --calibrate`, or, in YAML, the GPU with what it has and these.

    Raises:
        DeviceError: A GPU is to be written that isn't of the catalogue, or a file; or kernels as rows.
    """
    if path.suffix.lower() not in SUFFIXES:
        if isinstance(calibration, KernelCalibration):
            raise DeviceError(f"kernels can't be written to {path}", hint="name a .yaml file: --out mine.yaml")
        return calibration.to_csv()
    assert calibration.device is not None, "asked for before anything is measured"
    name = DeviceName(calibration.device.strip()).model
    if name.lower().endswith(SUFFIXES):
        data = read_description(Path(name).expanduser())
    elif name in gpu_names():
        data = {"like": name}
    else:
        raise DeviceError(
            f"sim:{name} can't be written down", hint="name a GPU of `cotenant devices`, or a file of one"
        )
    if isinstance(calibration, KernelCalibration):
        data["kernels"] = {
            fitted.kind: {"times": round(fitted.scale.times, 4), "added_us": round(fitted.scale.added_us, 3)}
            for fitted in calibration.kernels
        }
    else:
        data["solo_ms"] = [written_time(time) for time in calibration.times]
    return yaml.safe_dump(data, sort_keys=False)


def kernel_tables(folder: Path, gpu: GpuSpec) -> dict[str, Table]:
    """Measured kernels of this GPU by operation.

    Args:
        folder: With tables in the columns of ai-dynamo/aiconfigurator; those of other GPUs are passed over.
        gpu: The simulated GPU.

    Raises:
        DeviceError: There is no table of this GPU, or one can't be used.
    """
    paths = sorted(path for path in folder.iterdir() if path.suffix in _READERS) if folder.is_dir() else []
    if not paths:
        raise DeviceError(f"{folder} has no tables of kernels", hint=_HINT)
    pieces: dict[str, list[Table]] = {}
    others = set[str]()
    for path in paths:
        table = _read(path)
        if not {"op_name", "device"} <= table.keys():
            continue  # something else that lies there
        here = np.array([_model(gpu.title) in str(name) for name in table["device"]], np.bool_)
        others |= set(table["device"][~here].astype(str).tolist())
        for operation in COLUMNS:
            rows = here & (table["op_name"].astype(str) == operation)
            if rows.any():
                _check(path, operation, table, rows)
                pieces.setdefault(operation, []).append({name: column[rows] for name, column in table.items()})
    if not pieces:
        had = f"they are of {', '.join(sorted(others))}" if others else "none has rows with op_name and device"
        raise DeviceError(f"{folder} has no tables of kernels on {gpu.title}: {had}", hint=_HINT)
    return {operation: _joined(some) for operation, some in pieces.items()}


def _model(title: str) -> str:
    """What all names of a GPU have in common: `A100`, `H100`."""
    words = title.replace("-", " ").split()
    return next((word for word in words if any(letter.isdigit() for letter in word)), title)


def _read(path: Path) -> dict[str, Any]:
    import duckdb

    try:
        with duckdb.connect() as session:
            table = session.execute(f"SELECT * FROM {_READERS[path.suffix]}(?)", [str(path)]).fetchnumpy()  # noqa: S608
    except duckdb.Error as error:
        raise DeviceError(f"{path} can't be read: {str(error).splitlines()[0]}", hint=_HINT) from None
    return {name: np.ma.filled(column.astype(float), np.nan) if np.ma.is_masked(column) and column.dtype.kind in "iuf"
            else np.ma.getdata(column) for name, column in table.items()}  # fmt: skip


def _check(path: Path, operation: str, table: Table, rows: Bools) -> None:
    """Raise DeviceError unless every number of these rows can be one."""
    for name in (*COLUMNS[operation], "latency"):
        if name not in table:
            raise DeviceError(f"{path} has no column {name!r}, which rows of {operation} need", hint=_HINT)
        if name.endswith(_WORDS):
            continue
        try:
            values = table[name][rows].astype(float)
        except (TypeError, ValueError):
            raise DeviceError(f"{path}: the column {name!r} isn't of numbers", hint=_HINT) from None
        wrong = np.flatnonzero(~(np.isfinite(values) & ((values > 0) | (name == "step"))))
        if wrong.size:
            row = int(np.flatnonzero(rows)[wrong[0]]) + 1
            raise DeviceError(f"{path}, row {row}: `{name}` is {values[wrong[0]]:g}", hint=_HINT)


def _joined(pieces: Sequence[Table]) -> Table:
    shared = [name for name in pieces[0] if all(name in piece for piece in pieces)]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in shared}
