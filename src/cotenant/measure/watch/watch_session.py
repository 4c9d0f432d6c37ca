"""Watching: readers in the background, each at its own pace, and records on disk every minute.

A server that hangs delays only its own readings. Nothing is locked, and nothing is sent but reads of `/metrics`.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from cotenant.analyse.neighbours.watching import Watched, watched_of
from cotenant.clients.published import Software
from cotenant.devices.cpu.machine import model_name
from cotenant.devices.tree import FileTree
from cotenant.interruption import held
from cotenant.measure.provenance import now_utc, session
from cotenant.measure.watch.occupants import family, open_gpu
from cotenant.measure.watch.targets import open_targets
from cotenant.measure.watch.track import Track
from cotenant.store.folder import RunFolder, new_run_path
from cotenant.store.reading import WATCHED
from cotenant.store.watched import role_unit, sensor_name
from cotenant.tenancy.records import TrialRecords

FASTEST_S = 1.0
"""Between two readings of a page."""
STRETCH_S = 60.0
"""Records are written this often."""


class WatchSession:
    """A context manager; records from its start to its end."""

    def __init__(
        self, words: Sequence[str], *, device: str, every_s: float, histograms: Sequence[Software], root: Path
    ) -> None:
        self.device = device
        self._every_s = max(every_s, FASTEST_S)
        self._gpu = open_gpu(device)
        self.targets = open_targets(words, histograms, self._gpu)
        self.unseen = [
            said for process in self.targets.processes if self._gpu and (said := self._gpu.granted_by_mps(process))
        ]
        self._recorder = WatchRecorder(root, device, words, self._described())
        self._over = threading.Event()
        self._threads = [
            *(threading.Thread(target=self._repeat, args=(page.read,), daemon=True) for page in self.targets.pages),
            threading.Thread(target=self._repeat, args=(self._read_processes,), daemon=True),
        ]
        self._written_s = time.monotonic()

    @property
    def folder(self) -> Path:
        """The run."""
        return self._recorder.path

    def __enter__(self) -> Self:
        """Start reading."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, and write the rest."""
        self._over.set()
        for thread in self._threads:
            thread.join(2 * FASTEST_S)
        with held():  # else a signal that ended it would also end the writing
            self._write(last=True)

    def wait(self, seconds: float) -> None:
        """Let time pass; records are written meanwhile."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 1.0))
            if time.monotonic() - self._written_s >= STRETCH_S:
                self._write()

    def watched(self, looks: Literal["once", "often"] = "once") -> Watched:
        """Everything so far."""
        return watched_of(
            [track.totals() for track in self.targets.tracks],
            device=self.device,
            notes=self.notes(),
            unseen=self._unseen(),
            looks=looks,
            cores=os.cpu_count(),
        )

    def notes(self) -> list[str]:
        """What happened to the readings so far."""
        of_pages = [note for page in self.targets.pages for note in page.notes]
        of_processes = [note for process in self.targets.processes for note in process.notes]
        return [*self.targets.notes, *of_pages, *of_processes, *(self._gpu.notes if self._gpu else ())]

    def _described(self) -> Mapping[str, Any]:
        """Which device it is, so that what was watched is used for this kind only."""
        if self._gpu is not None:
            return {"name": self.device, "model": self._gpu.gpu.name, "host_cores": os.cpu_count()}
        cores = tuple(sorted(os.sched_getaffinity(0)))
        return {"name": self.device, "model": model_name(FileTree()), "cores": cores, "host_cores": os.cpu_count()}

    def _unseen(self) -> list[str]:
        watched = {member for process in self.targets.processes for member in family(process.pid)}
        return [*self.unseen, *(self._gpu.unseen(sorted(watched)) if self._gpu else ())]

    def _read_processes(self) -> None:
        t_s = time.time()
        for process in self.targets.processes:
            process.read(t_s)
        if self._gpu is not None:
            families = {process.pid: family(process.pid) for process in self.targets.processes}
            self._gpu.read(t_s, families, {process.pid: process.tracks for process in self.targets.processes})

    def _repeat(self, read: Callable[[], None]) -> None:
        due = time.monotonic()
        while not self._over.is_set():
            read()
            due = max(due + self._every_s, time.monotonic() + FASTEST_S / 2)
            self._over.wait(max(0.0, due - time.monotonic()))

    def _write(self, *, last: bool = False) -> None:
        self._written_s = time.monotonic()
        sharing = self._gpu.sharing if self._gpu else "processes"
        self._recorder.write(self.targets.tracks, sharing, self.notes(), self._unseen(), last=last)


# --- A watched stretch of time as a run on disk: totals as samples, a trial per stretch, histograms with the tenants

BLOCK_S = 300.0


class WatchRecorder:
    """Writes what was read since the last time."""

    def __init__(
        self, root: Path, device: str, words: Sequence[str], described: Mapping[str, Any] | None = None
    ) -> None:
        self._device = device
        self._trial = 0
        self._began_s: float | None = None
        self._read: dict[str, dict[str, int]] = {}
        self._counted: dict[str, dict[str, dict[float, float]]] = {}
        manifest = {
            "study_name": WATCHED, "study": json.dumps({"watch": list(words)}), "device": device, "simulated": False,
            "device_description": dict(described or {}), "sensors": [], "sessions": [session()], "state": "running",
            "watched": {},
        }  # fmt: skip
        self._folder = RunFolder.create(new_run_path(root, WATCHED), manifest)

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self._folder.path

    def write(
        self, tracks: Sequence[Track], sharing: str, notes: Sequence[str], unseen: Sequence[str], *, last: bool
    ) -> None:
        """One trial. Raises RunFolderError if it can't be written."""
        records = self._records(tracks, sharing)
        if records is not None:
            self._folder.commit(records)
            self._trial += 1
        self._folder.update_manifest(
            watched={
                "tenants": {track.tenant: _description(track) for track in tracks},
                "notes": list(notes),
                "unseen": list(unseen),
            },
            **({"state": "complete", "why": "it was stopped", "trials": self._trial} if last else {}),
        )

    def _records(self, tracks: Sequence[Track], sharing: str) -> TrialRecords | None:
        times, sensors, values, units, sources = [], [], [], [], []
        for track in tracks:
            done = self._read.setdefault(track.tenant, {})
            for role, (t_s, value) in track.since(done).items():
                done[role] = done.get(role, 0) + t_s.size
                times.append(t_s)
                values.append(value)
                sensors.append(np.full(t_s.size, sensor_name(role, track.tenant), object))
                units.append(np.full(t_s.size, role_unit(role), object))
                sources.append(np.full(t_s.size, track.sources.get(role, ""), object))
        t_s = np.concatenate(times) if times else np.empty(0)
        if not t_s.size:
            return None
        since, until = float(t_s.min()), float(t_s.max())
        self._began_s = since if self._began_s is None else self._began_s
        names = [track.tenant for track in tracks]
        return TrialRecords(
            trial={
                "trial": self._trial, "block": int((since - self._began_s) / BLOCK_S), "order": 0, "session": 0,
                "mix": "+".join(names), "solo": False, "device": self._device, "simulated": False,
                "sharing": sharing if len(names) > 1 else "alone", "settings": "{}", "load": WATCHED, "seed": 0,
                "started_utc": datetime.fromtimestamp(since, UTC).isoformat(timespec="milliseconds"),
                "start_ns": round(since * 1e9), "window_start_ns": round(since * 1e9), "window_s": until - since,
                "verdict": "valid", "failed_checks": [], "reasons": [],
            },
            tenants=tuple(self._tenant(track) for track in tracks),
            requests={},
            samples={
                "device": np.full(t_s.size, self._device, object), "t_ns": np.round(t_s * 1e9).astype(np.int64),
                "sensor": np.concatenate(sensors), "value": np.concatenate(values), "unit": np.concatenate(units),
                "source": np.concatenate(sources),
            },
        )  # fmt: skip

    def _tenant(self, track: Track) -> dict[str, Any]:
        counted = track.counted()
        before = self._counted.get(track.tenant, {})
        self._counted[track.tenant] = counted
        new = {
            measured: {str(bound): count - before.get(measured, {}).get(bound, 0.0) for bound, count in counts.items()}
            for measured, counts in counted.items()
        }
        return {
            "tenant": track.tenant, "of": track.tenant, "workload": track.software, "batch": 1, "load": WATCHED,
            "pid": track.facts.get("pid"), "facts": json.dumps({"buckets": new}),
        }  # fmt: skip


def _description(track: Track) -> Mapping[str, Any]:
    totals = track.totals()
    return {
        "software": track.software,
        "facts": dict(totals.facts),
        "grants": [asdict(grant) for grant in totals.grants],
        "as_of": now_utc(),
    }
