"""One run at a time per device, machine-wide. The kernel holds the lock, so a killed run never leaves a stale one."""

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from cotenant.errors import DeviceBusy


@contextlib.contextmanager
def device_lock(keys: Sequence[str], *, run: str, directory: Path | None = None) -> Iterator[None]:
    """Hold the physical resources named by ``keys``; DeviceBusy names who holds one of them."""
    directory = directory or Path(tempfile.gettempdir()) / "cotenant-locks"
    with contextlib.ExitStack() as held:
        for key in sorted(keys):  # one order for everybody: two runs can't wait for each other half way
            held.enter_context(_one(directory / f"{_slug(key)}.lock", key, run))
        yield


@contextlib.contextmanager
def _one(path: Path, key: str, run: str) -> Iterator[None]:
    try:
        path.parent.mkdir(mode=0o1777, parents=True, exist_ok=True)
        with contextlib.suppress(PermissionError):
            path.parent.chmod(0o1777)  # users share the directory as they share the device
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise DeviceBusy(
            f"the lock file {path} of {key} can't be opened: {error.strerror}",
            hint="remove it if it belongs to somebody who is gone, or set TMPDIR to a folder of your own",
        ) from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DeviceBusy(
                f"{key} is being measured by {_holder(fd)}; two runs on one device would measure each other",
                hint="wait until that run has ended, or choose another device with --device",
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps({"pid": os.getpid(), "run": run}).encode(), 0)
        yield
    finally:
        os.close(fd)


def _holder(fd: int) -> str:
    try:
        holder = json.loads(os.pread(fd, 4096, 0))
        return f"process {int(holder['pid'])} (run {str(holder['run'])[:200]!r})"
    except (ValueError, KeyError, TypeError):
        return "another run"


def _slug(key: str) -> str:
    return "".join(c if c.isalnum() or c in ".-" else "_" for c in key)
