"""Power rails: INA3221 monitors (iio on JetPack 4, hwmon later) and the INA238 on Thor's input."""

import math
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cotenant.devices.child_lines import ChildLines
from cotenant.devices.jetson.boards import TOTAL_RAILS, JetsonBoard, find
from cotenant.devices.jetson.clocks import open_clocks
from cotenant.devices.protocol import FunctionProbe, Probe, SensorInfo
from cotenant.devices.tree import FileTree, HeldOpen

_DEFAULT_PERIOD_S = 0.1
_CHANNELS = 3
_UNUSED = ("NC", "")


@dataclass(frozen=True, slots=True)
class Rail:
    """One monitored rail: the files whose product is its power."""

    label: str
    files: tuple[str, ...]
    to_watts: float
    """Factor for the product of the files."""
    period_s: float
    chip: str

    @property
    def total(self) -> bool:
        """True if documented to feed the entire module."""
        return self.label in TOTAL_RAILS

    @property
    def sensor(self) -> str:
        """Sensor name: the module's power, or that of a rail."""
        return "power_w" if self.total else f"rail_{self.label.lower()}_w"


def find_rails(tree: FileTree) -> tuple[Rail, ...]:
    """All rails the kernel exposes, in order of chips and channels."""
    old = [
        rail
        for folder in tree.glob("/sys/bus/i2c/drivers/ina3221x/*/iio:device*")
        for channel in range(_CHANNELS)
        if (rail := _iio_rail(tree, folder, channel)) is not None
    ]
    if old:
        return tuple(old)
    monitors = tree.glob("/sys/bus/i2c/drivers/ina3221/*/hwmon/hwmon*")
    if not monitors:
        monitors = tuple(f for f in tree.glob("/sys/class/hwmon/hwmon*") if tree.text(f"{f}/name") == "ina3221")
    rails = [
        rail
        for folder in monitors
        for channel in range(1, _CHANNELS + 1)
        if (rail := _hwmon_rail(tree, folder, channel)) is not None
    ]
    inputs = tree.glob("/sys/bus/i2c/drivers/ina238/*/hwmon/hwmon*")
    rails += [Rail("VIN", (f"{f}/power1_input",), 1e-6, _period_s(tree, f), "INA238") for f in inputs]
    return tuple(rails)


def _iio_rail(tree: FileTree, folder: str, channel: int) -> Rail | None:
    label = tree.text(f"{folder}/rail_name_{channel}")
    if label is None or label in _UNUSED:
        return None
    return Rail(label, (f"{folder}/in_power{channel}_input",), 1e-3, _DEFAULT_PERIOD_S, "INA3221")


def _hwmon_rail(tree: FileTree, folder: str, channel: int) -> Rail | None:
    label = tree.text(f"{folder}/in{channel}_label")
    if label is None or label in _UNUSED or label.startswith("sum of"):
        return None
    files = (f"{folder}/in{channel}_input", f"{folder}/curr{channel}_input")
    return Rail(label, files, 1e-6, _period_s(tree, folder), "INA3221")


def _period_s(tree: FileTree, folder: str) -> float:
    """Update period: the chip states the conversion time of all its channels."""
    milliseconds = tree.number(f"{folder}/update_interval")
    return milliseconds / 1e3 if milliseconds else _DEFAULT_PERIOD_S


def _watts(rail: Rail, files: Sequence[HeldOpen]) -> float:
    try:
        return math.prod(int(file.read()) for file in files) * rail.to_watts
    except (OSError, ValueError):  # the bus may be busy briefly
        return math.nan


def open_rails(tree: FileTree, board: JetsonBoard) -> Probe | None:
    """The power of every readable rail, NaN without a reading; None if there are none."""
    rails: list[tuple[Rail, list[HeldOpen]]] = []
    for rail in find_rails(tree):
        files = [tree.held(path) for path in rail.files]
        held = [file for file in files if file is not None]
        if len(held) == len(files):
            rails.append((rail, held))
    known = board.table.rails if board.table else {}

    def read() -> Sequence[float]:
        watts = [_watts(rail, files) for rail, files in rails]
        if all(math.isnan(value) for value in watts):
            raise OSError("no power rail answers")
        return watts

    infos = tuple(
        SensorInfo(
            rail.sensor,
            "W",
            f"{rail.chip} {rail.label}",
            rail.period_s,
            f"{known.get(rail.label, 'what it feeds is not documented')}; volts x amperes, averaged by the chip",
        )
        for rail, _ in rails
    )
    return FunctionProbe(infos, read) if rails else None


# --- all probes of this board: rails, clocks, temperatures, and `tegrastats` where a container hides the rails


def probes(root: Path = Path("/")) -> tuple[Probe, ...]:
    """Rails, GPU clock and temperatures; empty on other machines.

    If a container hides the rails, they are read through `tegrastats` where available.
    """
    board = find(root)
    if board is None:
        return ()
    tree = FileTree(root)
    rails: Probe | None = open_rails(tree, board)
    if rails is None and root == Path("/"):
        rails = open_tegrastats()
    found: tuple[Probe | None, ...] = (rails, open_clocks(tree), open_thermal(tree))
    return tuple(probe for probe in found if probe is not None)


_PERIOD_S = 0.2
_FIRST_LINE_S = 5.0
_RAIL = re.compile(r"(?<=\s)([A-Z][A-Z0-9_]*) (-?\d+)(?:mW)?/-?\d+(?:mW)?(?=\s|$)")


def powers_w(line: str) -> dict[str, float]:
    """The rails of a line, in watts. JetPack 4 omits the unit, which is still milliwatts."""
    return {name: int(value) / 1e3 for name, value in _RAIL.findall(line) if name != "NC"}


def open_tegrastats() -> Probe | None:
    """The rails as tegrastats prints them, if it is installed; raises OSError once it has ended."""
    command = shutil.which("tegrastats")
    if command is None:
        return None
    lines = ChildLines([command, "--interval", str(round(_PERIOD_S * 1e3))])
    first = lines.wait_for(lambda line: bool(powers_w(line)), _FIRST_LINE_S)
    if first is None:
        lines.close()
        return None
    rails = tuple(powers_w(first))
    quality = "instantaneous value; updated at the interval tegrastats was started with"

    def read() -> Sequence[float]:
        fresh = lines.fresh()
        watts = powers_w(fresh[-1]) if fresh else {}
        return [watts.get(rail, math.nan) for rail in rails]

    names = ("power_w" if rail in TOTAL_RAILS else f"rail_{rail.lower()}_w" for rail in rails)
    infos = tuple(
        SensorInfo(name, "W", f"tegrastats {rail}", _PERIOD_S, quality) for name, rail in zip(names, rails, strict=True)
    )
    return FunctionProbe(infos, read)


# --- thermal zones of the board

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


def _read(file: HeldOpen) -> float:
    try:
        return celsius(int(file.read()))
    except (OSError, ValueError):  # the zone of a sleeping part refuses
        return math.nan


def open_thermal(tree: FileTree) -> Probe | None:
    """Degrees of every readable zone; NaN of those that are off."""
    zones = [(zone, file) for zone in find_zones(tree) if (file := tree.held(f"{zone.folder}/temp")) is not None]
    infos = tuple(
        SensorInfo(zone.sensor, "°C", f"{zone.folder}/temp", 0.5, "board sensor, about 0.5 °C") for zone, _ in zones
    )
    return FunctionProbe(infos, lambda: [_read(file) for _, file in zones]) if zones else None
