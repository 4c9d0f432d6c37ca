"""What each run of the list came to, in one sentence, worked out in the background and kept until the run changes."""

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
    """`share`, `apart` or `open`; empty where nothing was to be decided."""
    sentence: str = ""


class Answers:
    """What is known so far. Safe to use from several threads."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Stamp, Headline]] = {}
        self._lock = threading.Lock()

    def known(self, entry: Entry) -> Headline | None:
        """The answer of the run as it is now, without reading anything."""
        stamp, found = self._known.get(entry.key, (None, None))
        return found if stamp == entry.stamp else None

    def work_out(self, entry: Entry) -> None:
        """Read the run and decide."""
        found = _headline(entry)
        with self._lock:
            self._known[entry.key] = entry.stamp, found

    def forget_all_but(self, keys: Iterable[str]) -> None:
        """Drop what belongs to runs that are gone."""
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
        return Headline()  # its report says what is wrong
    main = result.answer.main
    decided = main is not None and result.opening == headline(result.answer)
    return Headline(main.verdict if main is not None and decided else "", result.opening[0])
