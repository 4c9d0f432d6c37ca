"""Power rails: INA3221 monitors (iio on JetPack 4, hwmon later) and the INA238 on Thor's input."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.devices.jetson.board import JetsonBoard
from cotenant.devices.jetson.boards import TOTAL_RAILS
from cotenant.devices.protocol import SensorInfo
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
        """Sensor name: the module's power, or that of one rail."""
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


class RailProbe:
    """The power of every rail."""

    def __init__(self, rails: Sequence[Rail], files: Sequence[Sequence[HeldOpen]], board: JetsonBoard) -> None:
        self._rails = tuple(zip(rails, files, strict=True))
        known = board.table.rails if board.table else {}
        self.sensors: tuple[SensorInfo, ...] = tuple(
            SensorInfo(
                rail.sensor,
                "W",
                f"{rail.chip} {rail.label}",
                rail.period_s,
                f"{known.get(rail.label, 'what it feeds is not documented')}; volts x amperes, averaged by the chip",
            )
            for rail in rails
        )

    def read(self) -> Sequence[float]:
        """Watts; NaN for a rail without a reading."""
        watts = [_watts(rail, files) for rail, files in self._rails]
        if all(math.isnan(value) for value in watts):
            raise OSError("no power rail answers")
        return watts


def _watts(rail: Rail, files: Sequence[HeldOpen]) -> float:
    try:
        return math.prod(int(file.read()) for file in files) * rail.to_watts
    except (OSError, ValueError):  # the bus may be busy briefly
        return math.nan


def open_rails(tree: FileTree, board: JetsonBoard) -> RailProbe | None:
    """The probe for all readable rails; None if there are none."""
    rails, files = [], []
    for rail in find_rails(tree):
        try:
            opened = [HeldOpen(tree.path(path)) for path in rail.files]
        except OSError:
            continue
        rails.append(rail)
        files.append(opened)
    return RailProbe(rails, files, board) if rails else None
