"""Jetson boards: which one this is, its rails, clocks and temperatures, and how it is set up.

Every reader takes the root of the tree, so that a copy of another board's files serves as well as the board.
"""

from cotenant.devices.jetson.board import JetsonBoard, find
from cotenant.devices.jetson.findings import findings
from cotenant.devices.jetson.probes import probes

__all__ = ["JetsonBoard", "find", "findings", "probes"]
