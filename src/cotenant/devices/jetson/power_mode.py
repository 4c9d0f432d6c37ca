"""The power mode that `nvpmodel` has set, from its own files: no root and no command needed."""

import re
from dataclasses import dataclass

from cotenant.devices.tree import FileTree

STATUS = "/var/lib/nvpmodel/status"
CATALOGUE = "/etc/nvpmodel.conf"


@dataclass(frozen=True, slots=True)
class PowerMode:
    """The mode that is set, and those there are."""

    number: int
    name: str | None
    modes: dict[int, str]

    @property
    def unlimited(self) -> int | None:
        """The mode without a power budget, if the board has one: its number differs from board to board."""
        return next((number for number, name in self.modes.items() if name.upper().startswith("MAXN")), None)


def find_power_mode(tree: FileTree) -> PowerMode | None:
    """The mode; None: nothing says it."""
    modes = {
        int(number): name
        for number, name in re.findall(r"<\s*POWER_MODEL\s+ID=(\d+)\s+NAME=(\S+)", tree.text(CATALOGUE) or "")
    }
    status = re.search(r"pmode:0*(\d+)", tree.text(STATUS) or "")
    if status is None:
        return None
    number = int(status[1])
    return PowerMode(number, modes.get(number), modes)
