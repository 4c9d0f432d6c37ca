"""Watching: readers in the background, each at its own pace.

A server that hangs delays only its own readings. Nothing is locked, and nothing is sent but reads of `/metrics`.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from cotenant.analyse.neighbours import Watched, watched_of
from cotenant.clients.published import Software
from cotenant.devices.cpu import model_name
from cotenant.devices.tree import FileTree
from cotenant.interruption import held
from cotenant.measure.watch.occupants import family, open_gpu
from cotenant.measure.watch.recorder import WatchRecorder
from cotenant.measure.watch.targets import open_targets

FASTEST_S = 1.0
"""Between two readings of a page."""
LOOK_EVERY_S = 30.0
"""Between two analyses while it goes on, at least."""
DESCRIBED_S = 60.0
"""Between two descriptions of the tenants in the manifest."""


class WatchSession:
    """A context manager; records from its start to its end."""

    def __init__(
        self, words: Sequence[str], *, device: str, every_s: float, histograms: Sequence[Software], root: Path
    ) -> None:
        self.device = device
        self.cores = os.cpu_count() or 1
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
        self._described_s = time.monotonic()
        self._looking = threading.Lock()
        self._look_at_s = time.monotonic() + LOOK_EVERY_S
        self._latest: Watched | None = None

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
            self._keep()
            self._recorder.close()
            self._recorder.describe(self.targets.tracks, self.notes(), self._unseen(), last=True)

    def wait(self, seconds: float) -> None:
        """Let time pass; what is read meanwhile is kept. Raises RunFolderError if it can't be."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 1.0))
            self._keep()
            if time.monotonic() - self._described_s >= DESCRIBED_S:
                self._described_s = time.monotonic()
                self._recorder.describe(self.targets.tracks, self.notes(), self._unseen())

    def watched(self, looks: Literal["once", "often"] = "once") -> Watched:
        """Everything so far."""
        return watched_of(
            [track.totals() for track in self.targets.tracks],
            device=self.device,
            notes=self.notes(),
            unseen=self._unseen(),
            looks=looks,
            cores=self.cores,
        )

    def latest(self) -> Watched | None:
        """Everything up to some time ago, whose intervals hold however often they are looked at; None at first.

        The analysis takes longer the longer it watches: it may take half a percent of a core.
        """
        with self._looking:
            if time.monotonic() >= self._look_at_s:
                began_s = time.thread_time()
                self._latest = self.watched(looks="often")
                self._look_at_s = time.monotonic() + max(LOOK_EVERY_S, 200 * (time.thread_time() - began_s))
            return self._latest

    def notes(self) -> list[str]:
        """What happened to the readings so far."""
        of_pages = [note for page in self.targets.pages for note in page.notes]
        of_processes = [note for process in self.targets.processes for note in process.notes]
        return [*self.targets.notes, *of_pages, *of_processes, *(self._gpu.notes if self._gpu else ())]

    def _described(self) -> Mapping[str, Any]:
        """Which device it is, so that what was watched is used for this kind only."""
        if self._gpu is not None:
            return {"name": self.device, "model": self._gpu.gpu.name, "host_cores": self.cores}
        cores = tuple(sorted(os.sched_getaffinity(0)))
        return {"name": self.device, "model": model_name(FileTree()), "cores": cores, "host_cores": self.cores}

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

    def _keep(self) -> None:
        with held():  # a portion that is cut off would be the last
            self._recorder.add(self.targets.tracks, self._gpu.sharing if self._gpu else "processes")
