"""Reports of runs, made on demand and cached until the run changes."""

import html
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from cotenant.reporting.browser.entry import Entry
from cotenant.reporting.browser.finding import Stamp
from cotenant.reporting.browser.pages import links_part
from cotenant.reporting.browser.quiet import quietly

MOST_KEPT = 8
"""Cached pages, of a megabyte or two each."""

_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')


class Reports:
    """The most recent reports. Thread-safe."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, tuple[tuple[Path, Stamp], ...]], str] = OrderedDict()
        self._lock = threading.Lock()

    def report(self, runs: Sequence[Entry]) -> str:
        """The report of one or several runs, with navigation links on top.

        Raises:
            RunFolderError: A run is damaged.
        """
        links = links_part(runs)
        key = links, tuple((run.path, run.stamp) for run in runs)
        with self._lock:  # one at a time: two long runs might not fit into memory
            if key not in self._kept:
                self._kept[key] = _made([run.path for run in runs], links)
            self._kept.move_to_end(key)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
            return self._kept[key]


def _made(paths: Sequence[Path], links: str) -> str:
    from cotenant.errors import WatchedRuns
    from cotenant.reporting.figures.every import figures
    from cotenant.reporting.figures.material import gather
    from cotenant.reporting.html.page import page
    from cotenant.reporting.html.watch_page import watched_page
    from cotenant.store.watched import read_watched

    with quietly():
        try:
            material = gather(paths)
        except WatchedRuns:
            return watched_page(read_watched(paths), links=links)
    return page(material, figures(material), links=links)


def policy_of(report: str) -> str:
    """The Content-Security-Policy in a report, with the hashes of its scripts."""
    found = _POLICY.search(report)
    assert found is not None, "every report states its policy"
    return html.unescape(found[1])
