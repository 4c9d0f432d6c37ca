"""All probes of this board."""

from pathlib import Path

from cotenant.devices.jetson.board import find
from cotenant.devices.jetson.clocks import open_clocks
from cotenant.devices.jetson.rails import open_rails
from cotenant.devices.jetson.tegrastats import open_tegrastats
from cotenant.devices.jetson.thermal import open_thermal
from cotenant.devices.protocol import Probe
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
