"""Reports of runs, made when somebody asks and kept until the run changes."""

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
"""Pages in memory, of a megabyte or two each."""

_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')


class Reports:
    """The last few reports. Safe to use from several threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, tuple[tuple[Path, Stamp], ...]], str] = OrderedDict()
        self._lock = threading.Lock()

    def report(self, runs: Sequence[Entry]) -> str:
        """The report of one run, or of several beside each other, with links to its neighbours on top.

        Raises:
            RunFolderError: A run is damaged.
        """
        from cotenant.reporting.figures.every import figures
        from cotenant.reporting.figures.material import gather
        from cotenant.reporting.html.page import page

        links = links_part(runs)
        key = links, tuple((run.path, run.stamp) for run in runs)
        with self._lock:  # one at a time: two long runs at once might not fit into memory
            if key not in self._kept:
                with quietly():
                    material = gather([run.path for run in runs])
                self._kept[key] = page(material, figures(material), links=links)
            self._kept.move_to_end(key)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
            return self._kept[key]


def policy_of(report: str) -> str:
    """The policy that a report states for itself: which scripts may run, by their hashes."""
    found = _POLICY.search(report)
    assert found is not None, "every report states its policy"
    return html.unescape(found[1])
