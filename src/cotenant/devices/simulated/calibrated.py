"""Measured solo times compared with a simulated GPU's, and the calibration they imply."""

import csv
import io
from dataclasses import dataclass

from cotenant.devices.simulated.solo_times import COLUMNS, SoloTime
from cotenant.prediction.calibration.solo import SoloFit


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
        text = io.StringIO()
        table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(
            one.time.model_dump(exclude={"row"}, exclude_none=True, exclude_defaults=True)
            | {"workload": one.time.workload, "ms": one.time.ms}
            for one in self.tenants
        )
        return text.getvalue()
