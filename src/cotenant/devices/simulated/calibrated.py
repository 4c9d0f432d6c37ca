"""Measured solo times compared with a simulated GPU's, and the calibration they imply."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.devices.simulated.solo_times import COLUMNS, PROBE_COLUMNS
from cotenant.prediction.calibration.engine import EngineFit
from cotenant.prediction.calibration.solo import SoloFit
from cotenant.prediction.calibration.solo_time import SoloTime


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

    def to_csv(self) -> str:
        """The times as a file for `run --calibrate`."""
        return _csv([one.time for one in self.tenants], COLUMNS)


@dataclass(frozen=True, slots=True)
class EngineCalibration:
    """What clients of a running engine saw, and its host and device times."""

    device: str | None
    """The simulated GPU whose laws were fitted; None: rates per token."""
    fit: EngineFit
    notes: tuple[str, ...] = ()

    def to_csv(self) -> str:
        """The probes as a file for `run --calibrate`."""
        return _csv(self.fit.probes, COLUMNS + PROBE_COLUMNS)


def _csv(times: Sequence[SoloTime], columns: Sequence[str]) -> str:
    text = io.StringIO()
    table = csv.DictWriter(text, columns, lineterminator="\n")
    table.writeheader()
    table.writerows(
        time.model_dump(exclude={"row"}, exclude_none=True, exclude_defaults=True)
        | {"workload": time.workload, "ms": time.ms}
        for time in times
    )
    return text.getvalue()
