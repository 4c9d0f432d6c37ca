"""Limits enforced by the system on this process, where a library enforces its own only sporadically."""

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cotenant.cli.exits import Exit
from cotenant.cli.failures import Failure, tell

DATA = 5
"""Place of writable memory in statm."""


@contextmanager
def bounded(*, memory_bytes: int, seconds: float) -> Iterator[None]:
    """Limit the growth of the process and its run time. A library that ignores the limits is killed with it.

    Counts writable memory (RLIMIT_DATA), not address space: a database with two threads reserves a gigabyte of that for
    the smallest query, and uses a few megabytes.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[DATA])
    wanted = pages * resource.getpagesize() + memory_bytes
    watchdog = threading.Timer(seconds, _end, (seconds,))
    watchdog.daemon = True
    watchdog.start()
    try:
        if soft == resource.RLIM_INFINITY or wanted < soft:
            resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
        yield
    finally:
        watchdog.cancel()
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _end(seconds: float) -> None:
    tell(Failure(f"stopped after {seconds:g} s: the query can't be interrupted in another way."))
    os._exit(Exit.ERROR)
