"""Locks that all users and all temporary folders of a machine share: names of sockets, which the kernel keeps unique.

Abstract sockets have no file: no folder to own, to fill or to leave behind, the same for every TMPDIR, and gone with
the process that holds them. They belong to a network namespace: a service or a container that has one of its own
does not see those of others. Where its processes can be seen, so can the names in their namespace, and a run there
is found by them; from inside a container that sees no processes but its own, only the checks of each trial
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
"""Bytes of a name; the kernel takes 107."""


@contextlib.contextmanager
def held(key: str, run: str) -> Iterator[str | None]:
    """Hold a key until the end; gives None, or who holds it already. Raises OSError if there are no such sockets."""
    with contextlib.ExitStack() as sockets:
        try:
            sockets.enter_context(_bound(_name(key)))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            yield _holder(key, Path("/proc/net/unix")) or "another run"
            return
        with contextlib.suppress(OSError):  # who holds it is a courtesy
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
    """From the kernel's list of sockets: the process and the run, as the holder named them."""
    marker = f"@{_about(key)}"
    with contextlib.suppress(OSError, ValueError):
        for line in table.read_text(encoding="utf-8", errors="replace").splitlines():
            _, found, rest = line.partition(marker)
            if found:
                pid, _, run = rest.partition(":")
                return f"process {int(pid)} (run {run.rstrip('@')!r})"
    return None


def _holder_elsewhere(key: str) -> str | None:
    """Who holds a key in another network namespace, found through the processes of cotenant that can be seen."""
    ours, me = _namespace("self"), f"process {os.getpid()} "
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal() or _namespace(process.name) == ours:
            continue
        with contextlib.suppress(OSError):  # it has ended meanwhile, or it is hidden
            if b"cotenant" not in (process / "cmdline").read_bytes():
                continue
            found = _holder(key, process / "net" / "unix")
            if found is not None and not found.startswith(me):  # of another user's it isn't known whether it is ours
                return f"{found} in another network namespace"
    return None


def _namespace(process: str) -> str | None:
    """The network namespace of a process; None if it may not be known, as of other users' processes."""
    try:
        return os.readlink(f"/proc/{process}/ns/net")  # noqa: PTH115  (not a path to follow)
    except OSError:
        return None
