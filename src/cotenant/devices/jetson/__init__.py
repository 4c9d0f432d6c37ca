"""Jetson boards: model, power rails, clocks, temperatures and setup.

Every reader takes the root of the file tree, so it works on a copy of another board's files too.
"""

from typing import TYPE_CHECKING

from cotenant.devices.jetson.boards import JetsonBoard, find
from cotenant.devices.jetson.findings import findings
from cotenant.devices.jetson.rails import probes
from cotenant.front import front

__all__ = ["JetsonBoard", "find", "findings", "probes"]

if TYPE_CHECKING:
    from cotenant.devices.jetson.boards import TOTAL_RAILS
else:
    __getattr__, __dir__ = front(__name__, __file__)
