"""The Jetson model and the release it runs."""

import re
from dataclasses import dataclass
from pathlib import Path

from cotenant.devices.jetson.boards import BoardTable, table_for
from cotenant.devices.tree import FileTree

_JETPACKS = {32: 4, 34: 5, 35: 5, 36: 6, 38: 7, 39: 7}
"""Major release of Jetson Linux -> JetPack."""


@dataclass(frozen=True, slots=True)
class JetsonBoard:
    """A Jetson."""

    model: str
    """Model, from the device tree."""
    family: str
    table: BoardTable | None
    """Documented facts; None for an unknown module."""
    linux: str | None
    """Release of Jetson Linux, e.g. `36.4.3`."""
    jetpack: int | None


def find(root: Path = Path("/")) -> JetsonBoard | None:
    """The board below this root; None if it isn't a Jetson."""
    tree = FileTree(root)
    model = (tree.text("/proc/device-tree/model") or "").replace("\0", "").strip()
    linux = _release(tree.text("/etc/nv_tegra_release") or "")
    if "jetson" not in model.lower() and linux is None:
        return None
    table = table_for(model)
    major = int(linux.partition(".")[0]) if linux else None
    return JetsonBoard(
        model=model or "a Jetson",
        family=table.family if table else "unknown",
        table=table,
        linux=linux,
        jetpack=None if major is None else _JETPACKS.get(major),
    )


def _release(text: str) -> str | None:
    match = re.search(r"# R(\d+) \(release\), REVISION: ([\d.]+)", text)
    return f"{match[1]}.{match[2]}" if match else None
