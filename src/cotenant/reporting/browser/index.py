"""All runs below a folder, kept in memory and refreshed by timestamps."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cotenant.reporting.browser.answers import Answers, Headline
from cotenant.reporting.browser.entry import Entry, read_entry
from cotenant.reporting.browser.finding import Found, find_runs, look_at
from cotenant.reporting.browser.tallies import Tallies, Tally

MOST_ANSWERED = 100
"""Only the newest runs, one page of them, get an answer in the list."""
FRESH_NS = 1_000_000_000
"""Upper limit of the timestamp resolution of file systems."""


@dataclass(frozen=True, slots=True)
class Listed:
    """An entry with its verdicts and answer, once its trials have been read."""

    entry: Entry
    tally: Tally | None
    answer: Headline | None = None


class Index:
    """The runs below ``root``. Thread-safe."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._entries: dict[str, Entry] = {}
        self._folders: dict[str, Entry] = {}
        """The same entries, by folder."""
        self._tallies = Tallies()
        self._answers = Answers()
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._closed = threading.Event()
        self._counting: threading.Thread | None = None

    def all(self) -> Sequence[Listed]:
        """Every run, newest first. Reads only what changed."""
        entries = [entry.alive() for entry in self._refreshed()]
        entries.sort(key=lambda entry: (entry.started_utc, entry.name), reverse=True)
        return [Listed(entry, self._known(entry), self._answers.known(entry)) for entry in entries]

    def find(self, key: str) -> Listed | None:
        """The current state of the run with this key, verdicts included; None if there is none."""
        with self._lock:
            known = self._entries.get(key)
        if known is None:
            self._refreshed()
            known = self._entries.get(key)
        if known is None or (stamp := look_at(str(known.path))) is None:
            return None
        entry = self._current(Found(str(known.path), stamp), known)
        with self._lock:
            self._entries[key] = self._folders[str(known.path)] = entry
        return Listed(entry.alive(), self._tallies.count(entry), self._answers.known(entry))

    def watch(self) -> None:
        """Read verdicts in the background, newest run first, whenever the list has changed."""
        self._counting = threading.Thread(target=self._count, name="verdicts", daemon=True)
        self._counting.start()

    def close(self) -> None:
        """Stop the background thread and wait for it: Python must not exit while it is inside the database."""
        self._closed.set()
        self._changed.set()
        if self._counting is not None:
            self._counting.join()

    def _refreshed(self) -> list[Entry]:
        with self._lock:
            self._folders = {
                found.folder: self._current(found, self._folders.get(found.folder)) for found in find_runs(self.root)
            }
            self._entries = {entry.key: entry for entry in self._folders.values()}
            entries = list(self._folders.values())
        if any(self._tallies.known(entry) is None for entry in entries) or self._unanswered(entries):
            self._changed.set()
        return entries

    def _unanswered(self, entries: Sequence[Entry]) -> list[Entry]:
        """Runs without an answer, newest first. Empty while a run is measuring, to leave it the machine."""
        newest = sorted(entries, key=lambda entry: entry.started_utc, reverse=True)[:MOST_ANSWERED]
        if any(entry.alive().state == "running" for entry in newest):
            return []
        return [entry for entry in newest if entry.state != "unreadable" and self._answers.known(entry) is None]

    def _current(self, found: Found, known: Entry | None) -> Entry:
        # A second change within one clock tick would go unnoticed: reread fresh runs.
        fresh = time.time_ns() - max(found.stamp.manifest_ns, found.stamp.trials_ns) < FRESH_NS
        if known is not None and known.stamp == found.stamp and not fresh:
            return known
        return read_entry(found, self.root)

    def _known(self, entry: Entry) -> Tally | None:
        """A run in progress gets a new trial every few seconds: rereading is cheaper than checking."""
        return self._tallies.count(entry) if entry.state == "running" else self._tallies.known(entry)

    def _count(self) -> None:
        while self._changed.wait() and not self._closed.is_set():
            self._changed.clear()
            with self._lock:
                entries = sorted(self._entries.values(), key=lambda entry: entry.started_utc, reverse=True)
            self._tallies.forget_all_but(entry.key for entry in entries)
            self._answers.forget_all_but(entry.key for entry in entries)
            for entry in entries:
                if self._closed.is_set():
                    return
                if self._tallies.known(entry) is None:
                    self._tallies.count(entry)
            for entry in self._unanswered(entries):
                if self._closed.is_set():
                    return
                self._answers.work_out(entry)
