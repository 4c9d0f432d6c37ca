"""The doctor's findings on a Jetson."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cotenant.devices.jetson.boards import JetsonBoard, find
from cotenant.devices.jetson.clocks import EMC_RATE, find_gpu
from cotenant.devices.jetson.rails import celsius, find_rails, find_zones
from cotenant.devices.protocol import Finding
from cotenant.devices.tree import FileTree

NEAR_C = 10.0
"""A board this close to its throttling temperature will soon reach it."""


def findings(root: Path = Path("/")) -> tuple[Finding, ...]:
    """One finding per topic; empty on other machines."""
    board = find(root)
    if board is None:
        return ()
    tree = FileTree(root)
    return (
        _board(board),
        *_rails(tree, board),
        *_clock(tree),
        *_mode(tree),
        *_heat(tree),
        *_over_current(tree),
        _emc(tree),
    )


def _board(board: JetsonBoard) -> Finding:
    release = f"Jetson Linux {board.linux}" if board.linux else "an unknown release of Jetson Linux"
    jetpack = f" (JetPack {board.jetpack})" if board.jetpack else ""
    if board.table is None:
        text = f"{board.model}, {release}{jetpack}: not in the table of boards, so rails keep the kernel's names"
        return Finding("board", "note", text)
    return Finding("board", "ok", f"{board.model}, {release}{jetpack}")


def _rails(tree: FileTree, board: JetsonBoard) -> Iterator[Finding]:
    rails = find_rails(tree)
    readable = [rail for rail in rails if all(tree.number(file) is not None for file in rail.files)]
    if not readable:
        text = "no power rail can be read, so there will be no power and no energy"
        fix = "in a container, mount /sys read-only; otherwise check ls /sys/bus/i2c/drivers/ina3221*"
        yield Finding("power rails", "warning", text, fix)
        return
    names = ", ".join(rail.label for rail in readable)
    total = next((rail.label for rail in readable if rail.total), None)
    if total:
        yield Finding("power rails", "ok", f"{names}; {total} is the module's total")
        return
    why = f" ({board.table.note})" if board.table and board.table.note else ""
    yield Finding(
        "power rails", "note", f"{names}; none is the module's total{why}, so energy is given by rail and never summed"
    )


def _clock(tree: FileTree) -> Iterator[Finding]:
    gpu = find_gpu(tree)
    if gpu is None:
        yield Finding(
            "GPU clock", "warning", "the GPU's clock can't be read", "mount /sys read-only into the container"
        )
    elif gpu.held:
        yield Finding("GPU clock", "ok", f"held at {gpu.max_mhz:g} MHz (by jetson_clocks or similar)")
    else:
        low, high = (f"{value:g}" if value is not None else "?" for value in (gpu.min_mhz, gpu.max_mhz))
        text = f"varies between {low} and {high} MHz under the governor {gpu.governor or '?'}, so times follow the load"
        yield Finding("GPU clock", "warning", text, "sudo jetson_clocks --store; sudo jetson_clocks")


def _mode(tree: FileTree) -> Iterator[Finding]:
    mode = find_power_mode(tree)
    if mode is None:
        yield Finding("power mode", "note", "the power mode is unknown", "sudo nvpmodel -q")
        return
    name = mode.name or f"mode {mode.number}"
    if mode.unlimited is not None and mode.number != mode.unlimited:
        text = f"{name}: clocks and cores are limited by a power budget; results hold for this mode only"
        yield Finding("power mode", "note", text, f"sudo nvpmodel -m {mode.unlimited}")
    else:
        yield Finding("power mode", "ok", name)


def _heat(tree: FileTree) -> Iterator[Finding]:
    for zone in find_zones(tree):
        degrees = celsius(tree.number(f"{zone.folder}/temp"))
        if zone.trip_c is not None and not math.isnan(degrees) and degrees > zone.trip_c - NEAR_C:
            text = f"{zone.name} is at {degrees:.0f} °C; the board throttles at {zone.trip_c:.0f} °C"
            yield Finding("temperature", "warning", text, "let it cool, or turn the fan up: sudo jetson_clocks --fan")


def _over_current(tree: FileTree) -> Iterator[Finding]:
    counts = {
        file.rpartition("/")[2].partition("_")[0]: int(count)
        for file in tree.glob("/sys/class/hwmon/hwmon*/oc*_event_cnt")
        if (count := tree.number(file))
    }
    if counts:
        listed = ", ".join(f"{name}: {count}" for name, count in counts.items())
        text = f"the board has throttled for overcurrent since boot ({listed})"
        yield Finding(
            "over-current", "warning", text, "use a stronger power supply, or a lower power mode: sudo nvpmodel -m N"
        )


def _emc(tree: FileTree) -> Finding:
    if tree.number(EMC_RATE) is not None:
        return Finding("memory clock", "ok", "can be read")
    return Finding("memory clock", "note", "readable by root only, so it will be missing", "run as root if it matters")


STATUS = "/var/lib/nvpmodel/status"
CATALOGUE = "/etc/nvpmodel.conf"


@dataclass(frozen=True, slots=True)
class PowerMode:
    """The current mode and the available ones."""

    number: int
    name: str | None
    modes: dict[int, str]

    @property
    def unlimited(self) -> int | None:
        """The mode without a power budget, if the board has it: its number varies by board."""
        return next((number for number, name in self.modes.items() if name.upper().startswith("MAXN")), None)


def find_power_mode(tree: FileTree) -> PowerMode | None:
    """The current mode; None if unknown."""
    modes = {
        int(number): name
        for number, name in re.findall(r"<\s*POWER_MODEL\s+ID=(\d+)\s+NAME=(\S+)", tree.text(CATALOGUE) or "")
    }
    status = re.search(r"pmode:0*(\d+)", tree.text(STATUS) or "")
    if status is None:
        return None
    number = int(status[1])
    return PowerMode(number, modes.get(number), modes)
