"""Verdicts of the trials on disk. Committed trials never change, so each is read once."""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.reporting.browser.entry import Entry
from cotenant.store import damage, parquet
from cotenant.store.folder import RunFolder

if TYPE_CHECKING:
    import duckdb

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

    def known(self, entry: Entry) -> Tally | None:
        """The tally if every trial has been read; reads nothing."""
        trials, tally = self._tallies.get(entry.key, (frozenset(), Tally()))
        return tally if trials is entry.trials or trials == entry.trials else None

    def count(self, entry: Entry) -> Tally:
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
        wanted = set(numbers)
        chunks = RunFolder(run, {}).chunks()
        files = [chunk / "trials.parquet" for chunk, trials in chunks.items() if wanted.intersection(trials)]
        try:
            found = self._rows(files)
        except duckdb.Error:  # at least one is damaged: read them one by one
            found = {}
            for file in files:
                try:
                    found |= self._rows([file])
                except duckdb.Error:
                    continue
        return {number: found.get(number, _Trial(0, DAMAGED, "")) for number in numbers}

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
