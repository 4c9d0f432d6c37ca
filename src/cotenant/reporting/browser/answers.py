"""The one-sentence result of each listed run, computed in the background and cached until the run changes."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from cotenant.errors import CotenantError
from cotenant.reporting.browser.entry import Entry
from cotenant.reporting.browser.finding import Stamp
from cotenant.reporting.browser.quiet import quietly


@dataclass(frozen=True, slots=True)
class Headline:
    """The first sentence of a run's answer."""

    verdict: str = ""
    """`share`, `apart` or `open`; empty if there was nothing to decide."""
    sentence: str = ""


class Answers:
    """Known headlines. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Stamp, Headline]] = {}
        self._lock = threading.Lock()

    def known(self, entry: Entry) -> Headline | None:
        """The headline of the run's current state, if known; reads nothing."""
        stamp, found = self._known.get(entry.key, (None, None))
        return found if stamp == entry.stamp else None

    def work_out(self, entry: Entry) -> None:
        """Read the run and decide."""
        found = _headline(entry)
        with self._lock:
            self._known[entry.key] = entry.stamp, found

    def forget_all_but(self, keys: Iterable[str]) -> None:
        """Forget runs that no longer exist."""
        with self._lock:
            for key in self._known.keys() - set(keys):
                del self._known[key]


def _headline(entry: Entry) -> Headline:
    from cotenant.analyse.decision.wording import headline
    from cotenant.store.reading import open_runs
    from cotenant.store.results import result_of

    if not entry.trials:
        return Headline()
    try:
        with quietly(), open_runs([entry.path]) as opened:
            result = result_of(opened)
    except CotenantError:
        return Headline()  # its report shows the error
    main = result.answer.main
    decided = main is not None and result.opening == headline(result.answer)
    return Headline(main.verdict if main is not None and decided else "", result.opening[0])
