"""All probes of this board: rails, clocks, temperatures, and `tegrastats` where a container hides the rails."""

import math
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from cotenant.devices.child_lines import ChildLines
from cotenant.devices.jetson.board import find
from cotenant.devices.jetson.boards import TOTAL_RAILS
from cotenant.devices.jetson.clocks import open_clocks
from cotenant.devices.jetson.rails import open_rails
from cotenant.devices.jetson.thermal import open_thermal
from cotenant.devices.protocol import Probe, SensorInfo
from cotenant.devices.tree import FileTree


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
    """The rails of one line, in watts. JetPack 4 omits the unit, which is still milliwatts."""
    return {name: int(value) / 1e3 for name, value in _RAIL.findall(line) if name != "NC"}


class TegrastatsProbe:
    """The rails as tegrastats prints them."""

    def __init__(self, lines: ChildLines, rails: Sequence[str]) -> None:
        self._lines, self._rails = lines, tuple(rails)
        quality = "instantaneous value; updated at the interval tegrastats was started with"
        self.sensors: tuple[SensorInfo, ...] = tuple(
            SensorInfo(
                "power_w" if rail in TOTAL_RAILS else f"rail_{rail.lower()}_w",
                "W",
                f"tegrastats {rail}",
                _PERIOD_S,
                quality,
            )
            for rail in rails
        )

    def read(self) -> Sequence[float]:
        """Watts from the latest line. Raises OSError if tegrastats has ended."""
        fresh = self._lines.fresh()
        watts = powers_w(fresh[-1]) if fresh else {}
        return [watts.get(rail, math.nan) for rail in self._rails]


def open_tegrastats() -> TegrastatsProbe | None:
    """The probe, if tegrastats is installed and prints rails."""
    command = shutil.which("tegrastats")
    if command is None:
        return None
    lines = ChildLines([command, "--interval", str(round(_PERIOD_S * 1e3))])
    first = lines.wait_for(lambda line: bool(powers_w(line)), _FIRST_LINE_S)
    if first is None:
        lines.close()
        return None
    return TegrastatsProbe(lines, tuple(powers_w(first)))
