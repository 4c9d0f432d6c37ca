"""The power mode set by `nvpmodel`, read from its files without root or a command."""

import re
from dataclasses import dataclass

from cotenant.devices.tree import FileTree

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
        """The mode without a power budget, if the board has one: its number varies by board."""
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
