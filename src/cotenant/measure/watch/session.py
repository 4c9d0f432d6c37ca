"""Watching: readers in the background, each at its own pace, and records on disk every minute.

A server that hangs delays only its own readings. Nothing is locked, and nothing is sent but reads of `/metrics`.
"""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Self

from cotenant.analyse.neighbours.watched import Watched, watched_of
from cotenant.clients.published import Software
from cotenant.interruption import held
from cotenant.measure.watch.gpus import open_gpu
from cotenant.measure.watch.processes import family
from cotenant.measure.watch.recording import WatchRecorder
from cotenant.measure.watch.targets import open_targets

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
        self.unseen = [said for one in self.targets.processes if self._gpu and (said := self._gpu.granted_by_mps(one))]
        self._recorder = WatchRecorder(root, device, words)
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
        )

    def notes(self) -> list[str]:
        """What happened to the readings so far."""
        of_pages = [note for page in self.targets.pages for note in page.notes]
        of_processes = [note for process in self.targets.processes for note in process.notes]
        return [*self.targets.notes, *of_pages, *of_processes, *(self._gpu.notes if self._gpu else ())]

    def _unseen(self) -> list[str]:
        watched = {member for one in self.targets.processes for member in family(one.pid)}
        return [*self.unseen, *(self._gpu.unseen(sorted(watched)) if self._gpu else ())]

    def _read_processes(self) -> None:
        t_s = time.time()
        for process in self.targets.processes:
            process.read(t_s)
        if self._gpu is not None:
            families = {one.pid: family(one.pid) for one in self.targets.processes}
            self._gpu.read(t_s, families, {one.pid: one.tracks for one in self.targets.processes})

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
