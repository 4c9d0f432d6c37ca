"""Jetson boards: model, power rails, clocks, temperatures and setup.

Every reader takes the root of the file tree, so it works on a copy of another board's files too.
"""

from cotenant.devices.jetson.boards import JetsonBoard, find
from cotenant.devices.jetson.findings import findings
from cotenant.devices.jetson.rails import probes

__all__ = ["JetsonBoard", "find", "findings", "probes"]
