"""One run or server at a time per device, machine-wide. The kernel holds the lock: a killed run leaves no stale lock.

A run that only asks servers uses no device itself, so it may run beside a server of ours, but not beside another run.

Locks are socket names, shared by all users and temporary folders. `COTENANT_LOCKS` names a
folder for lock files instead, e.g. a folder that several containers mount.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import logging
import os
import socket
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from cotenant.errors import DeviceBusy

log = logging.getLogger(__name__)

ASKED = "/asked"
"""Added to the key of a device for the lock of whoever measures on it, its own tenants or servers."""

Purpose = Literal["measure", "ask", "serve"]
"""ask: measure servers that are already running."""
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


@contextlib.contextmanager
def device_lock(
    keys: Sequence[str], *, run: str, directory: Path | None = None, purpose: Purpose = "measure"
) -> Iterator[None]:
    """Hold the physical resources named by ``keys``; DeviceBusy names the current holder."""
    uses = () if purpose == "ask" else keys
    keys = (*uses, *(f"{key}{ASKED}" for key in keys if purpose != "serve"))
    named = os.environ.get("COTENANT_LOCKS")
    directory = directory or (Path(named) if named else None)
    with contextlib.ExitStack() as held:
        if directory is None:
            for key in sorted(keys):  # a fixed order: two runs can't deadlock
                held.enter_context(_on_host(key, run))
            yield
            return
        folder = held.enter_context(_opened_directory(directory))
        for key in sorted(keys):
            log.debug("locking %s", key)
            held.enter_context(_one(directory / f"{_slug(key)}.lock", folder, key, run))
        yield


@contextlib.contextmanager
def _on_host(key: str, run: str) -> Iterator[None]:
    with contextlib.ExitStack() as held:
        try:
            holder = held.enter_context(held_on_host(key, run))
        except OSError as error:
            raise _unusable(f"{key} can't be locked", error) from error
        if holder is not None:
            raise _busy(key, holder)
        yield


@contextlib.contextmanager
def _opened_directory(directory: Path) -> Iterator[int]:
    try:
        directory.mkdir(mode=0o1777, parents=True, exist_ok=True)
        # Don't follow links.
        folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise _unusable(f"the lock folder {directory} can't be used", error) from error
    try:
        owner = os.fstat(folder).st_uid
        if owner not in {0, os.geteuid()}:
            # The folder's owner can replace its files and let two runs hold the same lock.
            raise _unusable(f"the lock folder {directory} can't be used", OSError(0, "it belongs to another user"))
        if owner == os.geteuid():
            os.fchmod(folder, 0o1777)  # users share the folder as they share the device
        yield folder
    finally:
        os.close(folder)


@contextlib.contextmanager
def _one(path: Path, folder: int, key: str, run: str) -> Iterator[None]:
    try:
        fd = _opened(path.name, folder)
    except OSError as error:
        raise _unusable(f"the lock file {path} of {key} can't be opened", error) from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _busy(key, _holder(fd)) from None
        except OSError as error:
            raise _unusable(f"{key} can't be locked by {path}", error) from error
        with contextlib.suppress(OSError):  # naming the holder is best effort: the disk may be full
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps({"pid": os.getpid(), "run": run}).encode(), 0)
        yield
    finally:
        os.close(fd)


def _busy(key: str, holder: str) -> DeviceBusy:
    key = key.removesuffix(ASKED)
    if SERVE in holder:
        return DeviceBusy(
            f"{key} is in use by {holder}, and would be disturbed",
            hint="stop that server, or choose another device with --device; a study that only asks servers can run now",
        )
    return DeviceBusy(
        f"{key} is being measured by {holder}; two runs on one device would measure each other",
        hint="wait until that run ends, or choose another device with --device",
    )


def _opened(name: str, folder: int) -> int:
    try:
        return _regular(os.open(name, os.O_RDWR | os.O_CREAT | _FLAGS, 0o666, dir_fd=folder))
    except PermissionError:
        # Another user's file can be locked too, but maybe not written, nor opened with O_CREAT.
        for way in (os.O_RDWR, os.O_RDONLY):
            with contextlib.suppress(OSError):
                return _regular(os.open(name, way | _FLAGS, dir_fd=folder))
        raise


def _regular(fd: int) -> int:
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        os.close(fd)
        raise OSError(0, "It is not a regular file")
    if found.st_uid == os.geteuid():
        os.fchmod(fd, 0o666)  # regardless of the umask: the next user must be able to lock it
    return fd


def _holder(fd: int) -> str:
    try:
        holder = json.loads(os.pread(fd, 4096, 0))
        return holder_words(int(holder["pid"]), str(holder["run"])[:200])
    except (ValueError, KeyError, TypeError):
        return "another run"


def _unusable(what: str, error: OSError) -> DeviceBusy:
    return DeviceBusy(
        f"{what}: {(error.strerror or str(error)).lower()}",
        hint="set COTENANT_LOCKS to a folder you own, and make sure no other run uses the device",
    )


def _slug(key: str) -> str:
    return "".join(c if c.isalnum() or c in ".-" else "_" for c in key)


# --- locks shared by all users and temporary folders of a machine: socket names, which the kernel keeps unique

LONGEST = 100
"""Bytes of a name; the kernel allows 107."""


SERVE = "(serve "
"""Part of the words for a server that holds a device."""


def holder_words(pid: int, run: str) -> str:
    """The holder of a lock: `process 7 (run 'runs/quick')`, `process 7 (serve http://127.0.0.1:8700)`."""
    return f"process {pid} ({run})" if run.startswith(SERVE[1:]) else f"process {pid} (run {run!r})"


@contextlib.contextmanager
def held_on_host(key: str, run: str) -> Iterator[str | None]:
    """Hold a key until exit; yield None, or its current holder. Raises OSError without such sockets."""
    with contextlib.ExitStack() as sockets:
        try:
            sockets.enter_context(_bound(_name(key)))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            yield _listener(key, Path("/proc/net/unix")) or "another run"
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


def _listener(key: str, table: Path) -> str | None:
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
            found = _listener(key, process / "net" / "unix")
            if found is not None and not found.startswith(me):  # whether another user's is ours isn't known
                return f"{found} in another network namespace"
    return None


def _namespace(process: str) -> str | None:
    """The network namespace of a process; None if unreadable, as for other users' processes."""
    try:
        return os.readlink(f"/proc/{process}/ns/net")  # noqa: PTH115  (not a path to follow)
    except OSError:
        return None
