"""Thermal zones of the board."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.devices.protocol import SensorInfo
from cotenant.devices.tree import FileTree, HeldOpen

ZONES = "/sys/devices/virtual/thermal/thermal_zone*"
_FIXED = ("pmic",)
"""Zones that report a constant (100 or 50 °C on every board): not sensors."""


@dataclass(frozen=True, slots=True)
class Zone:
    """One zone."""

    name: str
    folder: str
    trip_c: float | None
    """Temperature at which the board starts to throttle."""

    @property
    def sensor(self) -> str:
        """Sensor name; `temperature_c` is the GPU's, as on other GPUs."""
        return "temperature_c" if self.name == "gpu" else f"{self.name}_temperature_c"


def find_zones(tree: FileTree) -> tuple[Zone, ...]:
    """All zones with a sensor, in the kernel's order."""
    folders = tree.glob(ZONES) or tree.glob("/sys/class/thermal/thermal_zone*")
    zones: dict[str, Zone] = {}
    for folder in sorted(folders, key=lambda path: int(path.rpartition("thermal_zone")[2] or 0)):
        kind = tree.text(f"{folder}/type")
        name = re.sub(r"[\W_]+", "_", re.sub(r"[-_]?(therm|thermal|fan-est)$", "", (kind or "").lower())).strip("_")
        if name and not name.startswith(_FIXED) and name not in zones:
            zones[name] = Zone(name, folder, _trip_c(tree, folder))
    return tuple(zones.values())


def _trip_c(tree: FileTree, folder: str) -> float | None:
    trips = [
        degrees / 1e3
        for path in tree.glob(f"{folder}/trip_point_*_type")
        if tree.text(path) == "passive" and (degrees := tree.number(path.replace("_type", "_temp"))) is not None
    ]
    return min((trip for trip in trips if trip > 0), default=None)


def celsius(milli: float | None) -> float:
    """Degrees; NaN for no reading and for -256, which means the part is off."""
    return math.nan if milli is None or milli <= -200_000 else milli / 1e3


class ThermalProbe:
    """Every zone."""

    def __init__(self, zones: Sequence[Zone], files: Sequence[HeldOpen]) -> None:
        self._files = files
        self.sensors: tuple[SensorInfo, ...] = tuple(
            SensorInfo(zone.sensor, "°C", f"{zone.folder}/temp", 0.5, "board sensor, about 0.5 °C") for zone in zones
        )

    def read(self) -> Sequence[float]:
        """Degrees Celsius; NaN for a zone that is off."""
        return [_read(file) for file in self._files]


def _read(file: HeldOpen) -> float:
    try:
        return celsius(int(file.read()))
    except (OSError, ValueError):  # the zone of a sleeping part refuses
        return math.nan


def open_thermal(tree: FileTree) -> ThermalProbe | None:
    """The probe for the readable zones."""
    zones, files = [], []
    for zone in find_zones(tree):
        try:
            files.append(HeldOpen(tree.path(f"{zone.folder}/temp")))
        except OSError:
            continue
        zones.append(zone)
    return ThermalProbe(zones, files) if zones else None
