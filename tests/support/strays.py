"""Ends processes that tests have left behind, whatever ended the tests.

All that a session starts inherits a variable that names the session's process. When that process ends a session, or is
gone when another begins, what still carries its name is killed: servers of tests that a time-out cut off, too.
"""

import contextlib
import os
import signal
from pathlib import Path

from tests.support import pace

NAME = "COTENANT_TEST_SESSION"


def owner() -> str:
    """This process, told apart from a later one with the same number by when it started."""
    return _named(os.getpid()) or ""


def _named(process: int) -> str | None:
    with contextlib.suppress(OSError):
        started = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
        return f"{process}:{started}"
    return None


def await_variables(process: int) -> None:
    """Wait until the kernel shows a process's variables: `Popen` returns a moment earlier, longer on a busy machine."""
    pace.until(Path(f"/proc/{process}/environ").read_bytes)


def end(ended: str = "") -> list[int]:
    """Kill what carries the name of a session that has ended, or of one whose process is gone."""
    killed = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            variables = (folder / "environ").read_bytes().split(b"\0")
            session = next((each for each in variables if each.startswith(NAME.encode() + b"=")), b"").decode()[
                len(NAME) + 1 :
            ]
            if session and (session == ended or _named(int(session.partition(":")[0])) != session):
                os.kill(int(folder.name), signal.SIGKILL)
                killed.append(int(folder.name))
    return killed
