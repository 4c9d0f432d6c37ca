"""All runs below a folder, kept in memory and refreshed by timestamps."""

import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.errors import CotenantError, IntegrityWarning
from cotenant.reporting.browser.entry import Found, RunEntry, Stamp, find_runs, look_at, read_entry
from cotenant.store import damage, parquet
from cotenant.store.folder import RunFolder

if TYPE_CHECKING:
    import duckdb


# --- verdicts of the trials on disk. Committed trials never change, so each is read once

VERDICTS = ("valid", "unstable", "invalid")
DAMAGED = "damaged"
"""Verdict of a trial that can't be read."""

_READ = "SELECT trial, block, verdict, started_utc FROM read_parquet(?)"


@dataclass(frozen=True, slots=True)
class Tally:
    """Verdict counts of a run."""

    verdicts: Mapping[str, int] = field(default_factory=dict)
    blocks: int = 0
    """Blocks that have a trial."""
    last_utc: str = ""
    """Start time of the last trial."""


@dataclass(frozen=True, slots=True)
class _Trial:
    block: int
    verdict: str
    started_utc: str


class Tallies:
    """Known tallies. Thread-safe."""

    def __init__(self) -> None:
        self._trials: dict[str, dict[int, _Trial]] = {}
        self._tallies: dict[str, tuple[frozenset[int], Tally]] = {}
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None

    def known(self, entry: RunEntry) -> Tally | None:
        """The tally if every trial has been read; reads nothing."""
        trials, tally = self._tallies.get(entry.key, (frozenset(), Tally()))
        return tally if trials is entry.trials or trials == entry.trials else None

    def count(self, entry: RunEntry) -> Tally:
        """The tally, reading trials that have not been read yet."""
        with self._lock:
            trials = self._trials.setdefault(entry.key, {})
            trials |= self._read(entry.path, sorted(entry.trials - trials.keys()))
            tally = _tally(trials, entry.trials)
            self._tallies[entry.key] = entry.trials, tally
        return tally

    def forget_all_but(self, keys: Iterable[str]) -> None:
        """Forget runs that no longer exist."""
        with self._lock:
            for key in self._trials.keys() - set(keys):
                del self._trials[key], self._tallies[key]

    def _read(self, run: Path, numbers: Sequence[int]) -> dict[int, _Trial]:
        import duckdb

        if not numbers:
            return {}
        remaining = set(numbers)
        chunks = RunFolder(run, {}).chunks()
        files = [chunk / "trials.parquet" for chunk, trials in chunks.items() if remaining.intersection(trials)]
        try:
            rows = self._rows(files)
        except duckdb.Error:  # at least one is damaged: read them one by one
            rows = {}
            for file in files:
                try:
                    rows |= self._rows([file])
                except duckdb.Error:
                    continue
        return {number: rows.get(number, _Trial(0, DAMAGED, "")) for number in numbers}

    def _rows(self, files: Iterable[Path]) -> dict[int, _Trial]:
        if self._connection is None:
            # One thread: a run may be measuring on this machine.
            self._connection = parquet.memory(threads=1)
        rows: list[tuple[Any, ...]] = self._connection.execute(_READ, [[damage.literal(f) for f in files]]).fetchall()
        return {
            trial: _Trial(block or 0, verdict if verdict in VERDICTS else DAMAGED, started or "")
            for trial, block, verdict, started in rows
        }


def _tally(trials: Mapping[int, _Trial], numbers: Iterable[int]) -> Tally:
    of_run = [trials[number] for number in numbers]
    count = Counter(trial.verdict for trial in of_run)
    return Tally(
        {verdict: count[verdict] for verdict in (*VERDICTS, DAMAGED) if count[verdict]},
        len({trial.block for trial in of_run if trial.verdict != DAMAGED}),
        max((trial.started_utc for trial in of_run), default=""),
    )


# --- the one-sentence result of each listed run, computed in the background and cached until the run changes


@dataclass(frozen=True, slots=True)
class Headline:
    """The first sentence of a run's answer."""

    verdict: str = ""
    """`share`, `apart` or `open`; empty if there was nothing to decide."""
    sentence: str = ""
    works: tuple[float, ...] = ()
    """Work done by each mix under its best way to share, relative to taking turns."""


class Headlines:
    """Known headlines. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Stamp, Headline]] = {}
        self._lock = threading.Lock()

    def known(self, entry: RunEntry) -> Headline | None:
        """The headline of the run's current state, if known; reads nothing."""
        stamp, headline = self._known.get(entry.key, (None, None))
        return headline if stamp == entry.stamp else None

    def work_out(self, entry: RunEntry) -> None:
        """Read the run and decide."""
        headline = _headline(entry)
        with self._lock:
            self._known[entry.key] = entry.stamp, headline

    def forget_all_but(self, keys: Iterable[str]) -> None:
        """Forget runs that no longer exist."""
        with self._lock:
            for key in self._known.keys() - set(keys):
                del self._known[key]


def _headline(entry: RunEntry) -> Headline:
    from cotenant.analyse.decision import headline
    from cotenant.analyse.result import result_of
    from cotenant.store.reading import open_runs
    from cotenant.store.run_records import run_records

    if not entry.trials:
        return Headline()
    try:
        with quietly(), open_runs([entry.path]) as opened:
            result = result_of(run_records(opened))
    except CotenantError:
        return Headline()  # its report shows the error
    main = result.answer.main
    decided = main is not None and result.opening == headline(result.answer)
    works = tuple(choice.best.work.est for choice in result.answer.choices if choice.best.work.est is not None)
    return Headline(main.verdict if main is not None and decided else "", result.opening[0], works)


MOST_ANSWERED = 100
"""Only the newest runs, one page of them, get an answer in the list."""
FRESH_NS = 1_000_000_000
"""Upper limit of the timestamp resolution of file systems."""


@dataclass(frozen=True, slots=True)
class ListedRun:
    """An entry with its verdicts and answer, once its trials have been read."""

    entry: RunEntry
    tally: Tally | None
    answer: Headline | None = None


class Index:
    """The runs below ``root``. Thread-safe."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._entries: dict[str, RunEntry] = {}
        self._folders: dict[str, RunEntry] = {}
        """The same entries, by folder."""
        self._tallies = Tallies()
        self._answers = Headlines()
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._closed = threading.Event()
        self._counting: threading.Thread | None = None

    def all(self) -> Sequence[ListedRun]:
        """Every run, newest first. Reads only what changed."""
        entries = [entry.alive() for entry in self._refreshed()]
        entries.sort(key=lambda entry: (entry.started_utc, entry.name), reverse=True)
        return [ListedRun(entry, self._known(entry), self._answers.known(entry)) for entry in entries]

    def find(self, key: str) -> ListedRun | None:
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
        return ListedRun(entry.alive(), self._tallies.count(entry), self._answers.known(entry))

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

    def _refreshed(self) -> list[RunEntry]:
        with self._lock:
            self._folders = {
                run.folder: self._current(run, self._folders.get(run.folder)) for run in find_runs(self.root)
            }
            self._entries = {entry.key: entry for entry in self._folders.values()}
            entries = list(self._folders.values())
        if any(self._tallies.known(entry) is None for entry in entries) or self._unanswered(entries):
            self._changed.set()
        return entries

    def _unanswered(self, entries: Sequence[RunEntry]) -> list[RunEntry]:
        """Runs without an answer, newest first. Empty while a run is measuring, to leave it the machine."""
        newest = sorted(entries, key=lambda entry: entry.started_utc, reverse=True)[:MOST_ANSWERED]
        if any(entry.alive().state == "running" for entry in newest):
            return []
        return [entry for entry in newest if entry.state != "unreadable" and self._answers.known(entry) is None]

    def _current(self, run: Found, known: RunEntry | None) -> RunEntry:
        # A second change within one clock tick would go unnoticed: reread fresh runs.
        fresh = time.time_ns() - max(run.stamp.manifest_ns, run.stamp.trials_ns) < FRESH_NS
        if known is not None and known.stamp == run.stamp and not fresh:
            return known
        return read_entry(run, self.root)

    def _known(self, entry: RunEntry) -> Tally | None:
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


@contextmanager
def quietly() -> Iterator[None]:
    """Suppress warnings about damaged trials: pages report damage themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IntegrityWarning)
        yield
