"""Temperature of the processor: hardware monitors, or thermal zones where there are none."""

from collections.abc import Sequence

from cotenant.devices.protocol import SensorInfo
from cotenant.devices.tree import HeldOpen, Tree

_CHIPS = frozenset({"coretemp", "k10temp", "zenpower", "cpu_thermal", "fam15h_power"})
_ZONES = ("x86_pkg_temp", "cpu", "soc")


class TemperatureProbe:
    """The hottest of the processor's sensors."""

    def __init__(self, files: Sequence[HeldOpen], source: str) -> None:
        self._files = files
        quality = f"highest of {len(files)} processor sensors, in steps of up to 1 °C"
        self.sensors: tuple[SensorInfo, ...] = (SensorInfo("temperature_c", "°C", source, 0.5, quality),)

    def read(self) -> Sequence[float]:
        """Degrees Celsius; NaN if no sensor answers this time."""
        degrees = []
        for file in self._files:
            try:
                degrees.append(int(file.read()) / 1e3)
            except (OSError, ValueError):  # a sensor of a sleeping core may refuse
                continue
        return (max(degrees, default=float("nan")),)


def open_temperature(tree: Tree) -> TemperatureProbe | None:
    """The probe, if a sensor of the processor answers."""
    monitors = [
        path
        for folder in tree.glob("/sys/class/hwmon/hwmon*")
        if tree.text(f"{folder}/name") in _CHIPS
        for path in tree.glob(f"{folder}/temp*_input")
    ]
    zones = [
        f"{folder}/temp"
        for folder in tree.glob("/sys/class/thermal/thermal_zone*")
        if (tree.text(f"{folder}/type") or "").lower().startswith(_ZONES)
    ]
    for paths, source in ((monitors, "/sys/class/hwmon"), (zones, "/sys/class/thermal")):
        answering = [path for path in paths if tree.number(path) is not None]
        if answering:
            return TemperatureProbe([HeldOpen(tree.path(path)) for path in answering], source)
    return None
