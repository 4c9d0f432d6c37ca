"""Measured solo times that calibrate a simulated GPU: read from a study's `solo_ms` or a CSV file, and checked."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cotenant import opening
from cotenant.errors import CotenantError, DeviceError
from cotenant.prediction.calibration import PROBED, PROBED_TOO, EngineFit, FittedKernels, SoloFit, SoloTime
from cotenant.workloads import find

COLUMNS = ("workload", "ms", "batch", "seq", "dtype", "mode", "software", "train", "utilisation")
PROBE_COLUMNS = ("tokens", "tokens_spread", *PROBED, *PROBED_TOO)
_HINT = (
    f"a row has workload and ms (milliseconds per request, alone), and where they matter {', '.join(COLUMNS[2:])}; "
    f"a probe of an engine also {', '.join(PROBE_COLUMNS[: -len(PROBED_TOO)])}"
)


def parse_solo_times(value: Any) -> tuple[SoloTime, ...]:
    """Parse a study's `solo_ms`: times by workload, a list of rows, or the path of a CSV file.

    Raises:
        DeviceError: A row is invalid; names the first.
    """
    if value is None:
        return ()
    if isinstance(value, str):
        return _read(Path(value).expanduser())
    if isinstance(value, Mapping):
        rows: Sequence[Any] = [{"workload": name, "ms": ms} for name, ms in value.items()]
    elif isinstance(value, Sequence):
        rows = value
    else:
        raise DeviceError(f"solo_ms is {value!r}", hint="write `solo_ms: {resnet50: 4.2}` or the path of a CSV file")
    return tuple(_row(row, f"row {number} of solo_ms") for number, row in enumerate(rows, 1))


def _read(path: Path) -> tuple[SoloTime, ...]:
    try:
        with io.StringIO(opening.read_text(path, encoding="utf-8-sig"), newline="") as stream:
            reader = csv.DictReader(stream, skipinitialspace=True)
            names = reader.fieldnames or []
            unknown = [name for name in names if name not in COLUMNS + PROBE_COLUMNS]
            if unknown or "workload" not in names or "ms" not in names:
                wrong = f"a column {unknown[0]!r}" if unknown else "no column 'workload' or 'ms'"
                raise DeviceError(f"{path} has {wrong}", hint=_HINT)
            rows = [{key: text for key, text in row.items() if text} for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DeviceError(f"{path} can't be read: {getattr(error, 'strerror', None) or error}", hint=_HINT) from None
    if not rows:
        raise DeviceError(f"{path} holds no rows", hint=_HINT)
    return tuple(_row(row, f"{path}, line {number}") for number, row in enumerate(rows, 2))


def _row(row: Any, where: str) -> SoloTime:
    if not isinstance(row, Mapping):
        raise DeviceError(f"{where} is {row!r}", hint=_HINT)
    try:
        time = SoloTime.model_validate({**row, "row": where})
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        key = ".".join(map(str, problem["loc"]))
        if not key:
            raise DeviceError(f"{where}: {str(problem['msg']).removeprefix('Value error, ')}", hint=_HINT) from None
        raise DeviceError(f"{where}: `{key}` is {row.get(key, 'missing')!r}", hint=_HINT) from None
    if time.probe:
        return time  # a server's model need not be in the catalogue
    try:
        find(time.workload)
    except CotenantError as error:
        raise DeviceError(f"{where}: {error.message}", hint=error.hint) from None
    return time


# --- measured solo times compared with a simulated GPU's, and the calibration they imply


@dataclass(frozen=True, slots=True)
class CalibratedTenant:
    """One measured time, and what it implies about its workload's host and device."""

    time: SoloTime
    simulated_ms: float
    """Without calibration."""
    fit: SoloFit


@dataclass(frozen=True, slots=True)
class Calibration:
    """Measured solo times, checked against a simulated GPU, and their fits."""

    device: str
    tenants: tuple[CalibratedTenant, ...]

    @property
    def times(self) -> tuple[SoloTime, ...]:
        """What was measured."""
        return tuple(tenant.time for tenant in self.tenants)

    def to_csv(self) -> str:
        """The times as a file for `run --calibrate`."""
        return _csv(self.times, COLUMNS)


@dataclass(frozen=True, slots=True)
class EngineCalibration:
    """What clients of a running engine saw, and its host and device times."""

    device: str | None
    """The simulated GPU whose laws were fitted; None: rates per token."""
    fit: EngineFit
    notes: tuple[str, ...] = ()

    @property
    def times(self) -> tuple[SoloTime, ...]:
        """What clients saw."""
        return self.fit.probes

    def to_csv(self) -> str:
        """The probes as a file for `run --calibrate`."""
        return _csv(self.times, COLUMNS + PROBE_COLUMNS)


@dataclass(frozen=True, slots=True)
class KernelCalibration:
    """Kernels of engines beside measured tables of them."""

    device: str
    kernels: tuple[FittedKernels, ...]


def _csv(times: Sequence[SoloTime], columns: Sequence[str]) -> str:
    text = io.StringIO()
    table = csv.DictWriter(text, columns, lineterminator="\n")
    table.writeheader()
    table.writerows(map(written_time, times))
    return text.getvalue()


def written_time(time: SoloTime) -> dict[str, Any]:
    """A time as a row of a file."""
    return time.model_dump(exclude={"row"}, exclude_defaults=True)
