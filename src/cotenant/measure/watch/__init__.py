"""Observe servers that already run: nothing is started, locked or sent, apart from reads of `/metrics`."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.measure.watch.exporter import Exporter
    from cotenant.measure.watch.history import read_history
    from cotenant.measure.watch.probe import probe_tenant
    from cotenant.measure.watch.watch_session import WatchSession
else:
    __getattr__, __dir__ = front(__name__, __file__)
