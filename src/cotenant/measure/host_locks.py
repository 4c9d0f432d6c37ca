"""Locks shared by all users and temporary folders of a machine: socket names, which the kernel keeps unique.

Abstract sockets have no file: there is no folder to own or clean up, they don't depend on TMPDIR, and they end with
the process that holds them. They belong to a network namespace: a service or a container with its own
doesn't see those of others. Where its processes are visible, so are the names in their namespace, and a run there
is found through them; inside a container that sees only its own processes, only the checks of each trial
(`quiet_machine`, `device_free`) notice another run.
"""

import contextlib
import errno
import hashlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

LONGEST = 100
"""Bytes of a name; the kernel allows 107."""


SERVE = "(serve "
"""Part of the words for a server that holds a device."""


def holder_words(pid: int, run: str) -> str:
    """The holder of a lock: `process 7 (run 'runs/quick')`, `process 7 (serve http://127.0.0.1:8700)`."""
    return f"process {pid} ({run})" if run.startswith(SERVE[1:]) else f"process {pid} (run {run!r})"


@contextlib.contextmanager
def held(key: str, run: str) -> Iterator[str | None]:
    """Hold a key until exit; yield None, or its current holder. Raises OSError without such sockets."""
    with contextlib.ExitStack() as sockets:
        try:
            sockets.enter_context(_bound(_name(key)))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            yield _holder(key, Path("/proc/net/unix")) or "another run"
            return
        with contextlib.suppress(OSError):  # naming the holder is best effort
            sockets.enter_context(_bound(f"{_about(key)}{os.getpid()}:{run[-40:]}"))
        yield _holder_elsewhere(key)


@contextlib.contextmanager
def _bound(name: str) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as bound:
        bound.bind("\0" + name[:LONGEST])
        yield


def _name(key: str) -> str:
    return f"cotenant/{key}" if len(key) < 60 else f"cotenant/{hashlib.sha256(key.encode()).hexdigest()}"


def _about(key: str) -> str:
    return f"{_name(key)}:held:"


def _holder(key: str, table: Path) -> str | None:
    """The holder's process and run, from the kernel's list of sockets."""
    marker = f"@{_about(key)}"
    with contextlib.suppress(OSError, ValueError):
        for line in table.read_text(encoding="utf-8", errors="replace").splitlines():
            _, found, rest = line.partition(marker)
            if found:
                pid, _, run = rest.partition(":")
                return holder_words(int(pid), run.rstrip("@"))
    return None


def _holder_elsewhere(key: str) -> str | None:
    """The holder of a key in another network namespace, found through visible cotenant processes."""
    ours, me = _namespace("self"), f"process {os.getpid()} "
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal() or _namespace(process.name) == ours:
            continue
        with contextlib.suppress(OSError):  # it has ended, or it is hidden
            if b"cotenant" not in (process / "cmdline").read_bytes():
                continue
            found = _holder(key, process / "net" / "unix")
            if found is not None and not found.startswith(me):  # whether another user's is ours isn't known
                return f"{found} in another network namespace"
    return None


def _namespace(process: str) -> str | None:
    """The network namespace of a process; None if unreadable, as for other users' processes."""
    try:
        return os.readlink(f"/proc/{process}/ns/net")  # noqa: PTH115  (not a path to follow)
    except OSError:
        return None
