"""`--probe`: the shortest experiment that tells who slows whom where all are always busy: pauses of a neighbour.

Its processes are stopped and continued by signals, so whoever asks it waits meanwhile. A guard continues them if this
program dies.
"""

import os
import signal
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from cotenant.errors import WatchError
from cotenant.measure.watch.occupants import family
from cotenant.text import amount, duration

if TYPE_CHECKING:
    from cotenant.measure.watch.watch_session import WatchSession

WATCH_FIRST_S = 60.0
"""Before the pauses: their length follows from how much times scatter."""
USUAL = 6, 15.0
"""Pauses and their seconds where nothing suggests others."""
LONGEST_S = 60.0


def probe_tenant(session: "WatchSession", tenant: str, first_s: float = WATCH_FIRST_S) -> None:
    """Watch for a while, then pause a tenant several times.

    Args:
        session: What is watched.
        tenant: The neighbour to pause.
        first_s: Seconds before the first pause.

    Raises:
        WatchError: It isn't watched, isn't on this machine, or belongs to another user.
    """
    pages = [page for page in session.targets.pages if any(track.tenant == tenant for track in page.tracks.values())]
    with Paused(_process(session, tenant)) as paused:  # refused now rather than in a minute
        session.wait(first_s)
        turns, seconds = _lengths(session, tenant)
        for turn in range(turns):
            for page in pages:
                page.pause()
            paused.stop()
            session.wait(seconds)
            paused.go_on()
            for page in pages:
                page.go_on()
            if turn == 0:
                session.targets.notes.append(f"{tenant} was paused {amount(turns, 'time')} for {duration(seconds)}.")
            session.wait(seconds)


def _process(session: "WatchSession", tenant: str) -> int:
    known = [track.tenant for track in session.targets.tracks]
    if tenant not in known:
        raise WatchError(
            f"nothing called {tenant!r} is watched, so it can't be paused", hint=f"one of {', '.join(known)}"
        )
    for process in session.targets.processes:
        tenants = [track.tenant for track in process.tracks]
        if tenant in tenants:
            if len(tenants) > 1:
                others = ", ".join(name for name in tenants if name != tenant)
                raise WatchError(f"{tenant} can't be paused by itself: its process also serves {others}")
            return process.pid
    raise WatchError(f"{tenant} can't be paused: its process isn't on this machine", hint="run the probe where it runs")


def _lengths(session: "WatchSession", tenant: str) -> tuple[int, float]:
    """As many pauses as the pairs in question need."""
    asked = [pair.experiment for pair in session.watched().influences if pair.neighbour == tenant and pair.experiment]
    turns, seconds = max(asked, key=lambda experiment: experiment[1], default=USUAL)
    return turns, min(max(seconds, USUAL[1]), LONGEST_S)


class Paused:
    """Stops a process and its children, and continues them whatever happens."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._pids: Sequence[int] = ()
        self._guard: subprocess.Popen[bytes] | None = None
        try:
            os.kill(pid, 0)
        except PermissionError:
            raise WatchError(f"process {pid} can't be paused: it belongs to another user") from None
        except ProcessLookupError:
            raise WatchError(f"there is no process {pid}") from None
        if os.getpid() in family(pid):
            raise WatchError(f"process {pid} can't be paused: this program runs in it")

    def __enter__(self) -> Self:
        """Nothing is stopped yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Continue it."""
        self.go_on()

    def stop(self) -> None:
        """Stop all of it; the guard is there first."""
        self._pids = family(self._pid)
        words = " ".join(map(str, self._pids))
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", f"trap '' INT TERM HUP; read _; kill -CONT {words}"],
            stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        self._send(signal.SIGSTOP)

    def go_on(self) -> None:
        """Continue all of it, those first that others wait for."""
        if self._guard is None:
            return
        self._send(signal.SIGCONT)
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()
        self._guard = None

    def _send(self, number: int) -> None:
        for pid in self._pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
