"""Tile instructions (AMX) that a virtual machine lists but doesn't describe.

Some hypervisors pass the flag on and cut off the CPUID leaf with the size of the tiles. oneDNN, which multiplies
matrices for torch, then configures tiles of size zero, and the process dies of an illegal instruction.
"""

import os

from cotenant.devices.cpu import machine
from cotenant.devices.tree import FileTree

LIMIT = "ONEDNN_MAX_CPU_ISA"
"""Read by oneDNN before its first product."""
_WITHOUT_TILES = "AVX512_CORE_FP16"
_TILE_LEAF = 0x1D


def unusable(tree: FileTree) -> bool:
    """True if the processor lists AMX without the leaf that describes it."""
    level = machine.cpuinfo(tree).get("cpuid level", "")
    return "amx_tile" in machine.flags(tree) and level.isdigit() and int(level) < _TILE_LEAF


def avoid(tree: FileTree) -> None:
    """Keep oneDNN off unusable tiles, in this process and those it starts; a limit that the user set stays."""
    if unusable(tree):
        os.environ.setdefault(LIMIT, _WITHOUT_TILES)
