"""Served traffic as a run on disk: the tables of a study, a trial per interval, bounded disk space."""

import asyncio
import contextlib
import json
import logging
import shutil
import time
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cotenant.errors import RunFolderError
from cotenant.measure.provenance import now_utc, session
from cotenant.serving.service import Service
from cotenant.serving.tenants_file import ServedTenant, TenantsFile
from cotenant.serving.tickets import NOT_OURS, RequestOutcome
from cotenant.store.folder import RunFolder, new_run_path
from cotenant.store.integrity import KEY, Gap, as_entry, with_gap
from cotenant.tenancy.objective import slo_columns
from cotenant.tenancy.records import MISSING_NS, SERVED, TrialRecords

log = logging.getLogger(__name__)

STRETCH_S = 30.0
MOST_ROWS = 100_000
"""An interval ends early with this many requests."""
MOST_KEPT = 2 * MOST_ROWS
"""Requests kept in memory while they can't be written."""
TRIALS = 720
"""Trials per run folder, at least six hours; then a new folder is started."""
MOST_BYTES = 1 << 30
REMOVED = ".removed"
"""Name of a run while it is deleted: what a kill leaves of it is then neither read as a run nor kept for ever."""


class _Interval(NamedTuple):
    """Records of an interval, not yet on disk."""

    records: TrialRecords
    requests: int
    since_utc: str
    until_utc: str


class Recorder:
    """Records a service's outcomes. Never blocks serving: what can't be written is kept, and dropped when too much."""

    def __init__(self, service: Service, file: TenantsFile, root: Path, *, most_bytes: int = MOST_BYTES) -> None:
        self._service = service
        self._first = file
        self._root = root
        self._most_bytes = most_bytes
        self._outcomes: list[RequestOutcome] = []
        self._since = time.monotonic()
        self._since_utc = now_utc()
        self._trial = 0
        self._folder: RunFolder | None = None
        self._full = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._writing = asyncio.Lock()
        self._unwritten: deque[_Interval] = deque()
        self._left_out = 0
        """Requests of this interval that there was no room for."""
        self._gaps: tuple[Gap, ...] = ()
        """Of the current folder."""
        self._gaps_written: tuple[Gap, ...] = ()
        self.recorded = 0
        self.missing = 0
        """Requests that are in no folder, and never will be."""
        self.failing: str | None = None
        """Why nothing can be written now."""

    @property
    def path(self) -> Path | None:
        """The current run folder."""
        return self._folder.path if self._folder else None

    def state(self) -> dict[str, Any]:
        """For `/status`."""
        return {
            "path": str(self.path),
            "recorded": self.recorded,
            "missing": self.missing,
            "unwritten": sum(interval.requests for interval in self._unwritten),
            "failing": self.failing,
        }

    @property
    def _file(self) -> TenantsFile:
        return self._service.file or self._first

    async def cut(self) -> None:
        """End the interval here: the tenants are about to change."""
        await self._write()

    def open(self) -> None:
        """Start recording. Raises RunFolderError if the folder can't be written."""
        self._folder = self._new_folder()
        self._service.measures.listen(self._hear)
        self._task = asyncio.get_running_loop().create_task(self._go_on())

    async def close(self) -> None:
        """Write the rest."""
        self._closing = True
        self._full.set()
        if self._task is not None:
            await self._task  # not cancelled: a thread may be writing for it
        await self._write()
        self._drop(0)
        self._note_gaps()
        if self._folder is not None:
            self._finish(self._folder, "the server was stopped")

    def _hear(self, outcomes: list[RequestOutcome]) -> None:
        room = MOST_KEPT - len(self._outcomes)
        ours = [outcome for outcome in outcomes if outcome.why not in NOT_OURS]
        self._outcomes += ours[:room]
        self._left_out += len(ours[room:])
        if len(self._outcomes) >= MOST_ROWS:
            self._full.set()

    async def _go_on(self) -> None:
        while not self._closing:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._full.wait(), STRETCH_S)
            self._full.clear()
            await self._write()

    async def _write(self) -> None:
        async with self._writing:
            self._service.measures.settle()
            self._end_interval()
            while self._unwritten and self._folder is not None:
                try:
                    await self._commit(self._folder, self._unwritten[0])
                except Exception as error:  # noqa: BLE001 - recording goes on, whatever fails
                    self._failed(error)
                    break
                self._unwritten.popleft()
                await self._written()
            self._drop(MOST_KEPT)

    def _end_interval(self) -> None:
        outcomes, self._outcomes = self._outcomes, []
        left_out, self._left_out = self._left_out, 0
        since, self._since = self._since, time.monotonic()
        since_utc, self._since_utc = self._since_utc, now_utc()
        if left_out:
            self._miss(Gap(left_out, since_utc, self._since_utc, f"more than {MOST_KEPT:,} requests at once"))
        if outcomes:
            records = self._records(outcomes, since, since_utc, self._since)
            requests = len(records.requests["seq"])
            if requests < len(outcomes):
                self._miss(Gap(len(outcomes) - requests, since_utc, self._since_utc, "their tenants were removed"))
            self._unwritten.append(_Interval(records, requests, since_utc, self._since_utc))

    async def _commit(self, folder: RunFolder, interval: _Interval) -> None:
        number = {"trial": self._trial, "block": self._trial}
        records = replace(interval.records, trial={**interval.records.trial, **number})
        await asyncio.to_thread(folder.commit, records)
        self._trial += 1
        self.recorded += interval.requests

    async def _written(self) -> None:
        """Records are on disk: note what is missing before them, start the next folder, make room."""
        assert self._folder is not None
        if self.failing is not None:
            log.warning("requests are recorded again; %s are missing so far", f"{self.missing:,}")
            self.failing = None
        self._note_gaps()
        try:
            if self._trial >= TRIALS:
                self._finish(self._folder, "a new run was started")
                self._folder, self._trial = self._new_folder(), 0
                self._gaps = () if self._gaps == self._gaps_written else self._gaps
                self._gaps_written = ()
            await asyncio.to_thread(self._make_room)
        except (RunFolderError, OSError) as error:
            log.warning("the record could not be tidied up: %s", error)

    def _failed(self, error: Exception) -> None:
        why = (error.reason if isinstance(error, RunFolderError) else None) or str(error).partition("\n")[0]
        why = why or type(error).__name__
        if self.failing is None:
            log.warning("requests can't be recorded: %s; up to %s are kept in memory", why, f"{MOST_KEPT:,}")
        self.failing = why

    def _drop(self, most: int) -> None:
        """Give up the oldest intervals until no more than so many requests are kept."""
        kept = sum(interval.requests for interval in self._unwritten)
        while kept > most and self._unwritten:
            interval = self._unwritten.popleft()
            kept -= interval.requests
            self._miss(Gap(interval.requests, interval.since_utc, interval.until_utc, self.failing or "not written"))

    def _miss(self, gap: Gap) -> None:
        self.missing += gap.requests
        self._gaps = with_gap(self._gaps, gap)
        log.error("%d requests are missing from the record: %s", gap.requests, gap.why)

    def _note_gaps(self) -> None:
        if self._folder is None or self._gaps == self._gaps_written:
            return
        try:
            self._folder.update_manifest(**{KEY: as_entry(self._gaps)})
            self._gaps_written = self._gaps
        except RunFolderError as error:
            log.warning("%s That %d requests are missing is not in the record.", error.message, self.missing)

    def _new_folder(self) -> RunFolder:
        service = self._service
        manifest: dict[str, Any] = {
            "study_name": SERVED,
            "study": json.dumps(self._file.model_dump(mode="json", exclude={"admin_key"}), default=str),
            "device": service.device,
            "simulated": service.basis == "simulated",
            "device_description": {},
            "sensors": [],
            "sessions": [session()],
            "state": "running",
        }
        return RunFolder.create(new_run_path(self._root, SERVED), manifest)

    def _finish(self, folder: RunFolder, why: str) -> None:
        with contextlib.suppress(RunFolderError):
            folder.update_manifest(state="complete", why=why, trials=len(folder.committed()))

    def _make_room(self) -> None:
        """Remove the oldest runs of served traffic, never the current run."""
        assert self._folder is not None
        home = self._folder.path.parent
        removed = home / REMOVED
        shutil.rmtree(removed, ignore_errors=True)  # left by a server that was killed
        runs = sorted(path for path in home.iterdir() if path.is_dir() and path != self._folder.path)
        sizes = {path: _size(path) for path in (*runs, self._folder.path)}
        total = sum(sizes.values())
        for path in runs:
            if total <= self._most_bytes:
                return
            with contextlib.suppress(RunFolderError, OSError):
                if RunFolder.open(path).manifest.get("study_name") == SERVED:
                    path.rename(removed)
                    shutil.rmtree(removed)
                    total -= sizes[path]

    def _records(self, outcomes: list[RequestOutcome], since: float, since_utc: str, until: float) -> TrialRecords:
        names = list(self._service.tenants)
        place = {name: at for at, name in enumerate(names)}
        kept = sorted((outcome for outcome in outcomes if outcome.tenant in place), key=lambda outcome: outcome.arrived)

        def ns(values: list[float | None]) -> np.ndarray[Any, np.dtype[np.int64]]:
            return np.array([MISSING_NS if value is None else round(value * 1e9) for value in values], np.int64)

        served = [outcome.why is None for outcome in kept]
        return TrialRecords(
            trial={
                "trial": self._trial,
                "block": self._trial,
                "order": 0,
                "session": 0,
                "mix": "+".join(names),
                "solo": False,
                "device": self._service.device,
                "simulated": self._service.basis == "simulated",
                "sharing": _sharing(self._file),
                "settings": json.dumps({"fairness": self._file.fairness, **self._file.settings}),
                "load": SERVED,
                "seed": 0,
                "started_utc": since_utc,
                "start_ns": round(since * 1e9),
                "window_start_ns": round(since * 1e9),
                "window_s": until - since,
                "verdict": "valid",
                "failed_checks": [],
                "reasons": [],
            },
            tenants=tuple(self._tenant(name) for name in names),
            requests={
                "tenant": np.array([place[outcome.tenant] for outcome in kept], np.int64),
                "seq": np.arange(len(kept), dtype=np.int64),
                "intended_ns": ns([outcome.arrived for outcome in kept]),
                "started_ns": ns([outcome.began for outcome in kept]),
                "first_ns": ns([outcome.first for outcome in kept]),
                "done_ns": ns([outcome.done if ok else None for outcome, ok in zip(kept, served, strict=True)]),
                "device_ns": ns([outcome.device_s if ok else None for outcome, ok in zip(kept, served, strict=True)]),
                "tokens_out": np.array([outcome.tokens or MISSING_NS for outcome in kept], np.int64),
                "in_window": np.ones(len(kept), np.bool_),
                "ok": np.array(served, np.bool_),
            },
        )

    def _tenant(self, name: str) -> dict[str, Any]:
        entry = self._file.tenants[name]
        return {
            "tenant": name,
            "of": name,
            "workload": entry.workload or _backend(entry),
            "batch": entry.batch,
            "seq": entry.seq,
            "dtype": entry.dtype,
            "load": SERVED,
            **slo_columns(entry.slo),
            "share": f"{entry.share:g}%" if isinstance(entry.share, float) else None,
            "weights": entry.weights or f"random({entry.seed})",
            "facts": json.dumps({"mode": entry.mode, "tokens": entry.tokens}),
        }


def _sharing(file: TenantsFile) -> str:
    """`scheduled` where requests take turns on the device."""
    if file.divided:
        return str(file.sharing)
    return "scheduled" if len(file.tenants) > 1 else "alone"


def _backend(entry: ServedTenant) -> str:
    assert entry.backend is not None
    return f"{entry.backend.protocol}:{entry.backend.address.name}"


def _size(path: Path) -> int:
    total = 0
    for file in path.rglob("*"):
        with contextlib.suppress(OSError):
            total += file.stat().st_size
    return total
