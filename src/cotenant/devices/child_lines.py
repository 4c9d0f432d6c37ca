"""A child process that prints lines, read without blocking.

It ends when we do: even if we are killed, its next write fails with a broken pipe.
"""

import contextlib
import logging
import os
import subprocess
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

log = logging.getLogger(__name__)

_ENOUGH_BYTES = 1 << 16
_UNREAD_LIMIT_BYTES = 1 << 20
"""A longer run without a line break isn't a tool's output; the rest is dropped."""
_TAIL_LINES = 20


class ChildLines:
    """A child process and the lines it has printed so far, standard error included."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self._name = Path(command[0]).name
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=None if env is None else dict(env),
            start_new_session=True,  # Ctrl-C goes to us, and we end the child
        )
        assert self._process.stdout is not None
        self._fd = self._process.stdout.fileno()
        os.set_blocking(self._fd, False)
        self._unread = b""
        self.tail: list[str] = []
        """The most recent lines, for error messages."""
        self._finalizer = weakref.finalize(self, _end, self._process)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def fresh(self) -> list[str]:
        """Return the complete lines since the last call. Raise OSError once it has ended and everything is read."""
        data, ended = b"", False
        while True:
            try:
                part = os.read(self._fd, _ENOUGH_BYTES)
            except BlockingIOError:
                break
            if not part:
                ended = True
                break
            data += part
        *whole, self._unread = (self._unread + data).split(b"\n")
        if ended and self._unread:
            whole.append(self._unread)
            self._unread = b""
        self._unread = self._unread[-_UNREAD_LIMIT_BYTES:]
        lines = [line.decode("utf-8", errors="replace").rstrip("\r") for line in whole]
        self.tail = [*self.tail, *lines][-_TAIL_LINES:]
        if ended and not lines:
            log.info("%s has ended; its last lines: %s", self._name, self.tail[-3:])
            raise OSError(f"{self._name} has ended")
        return lines

    def wait_for(self, wanted: Callable[[str], bool], timeout_s: float) -> str | None:
        """Return the first wanted line, or None if the child ended or time ran out."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            try:
                for line in self.fresh():
                    if wanted(line):
                        return line
            except OSError:
                return None
            time.sleep(0.01)
        return None

    def exit_code(self, timeout_s: float = 1.0) -> int | None:
        """Exit code, or None while it is running."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout=timeout_s)
        return None

    def close(self) -> None:
        """End it."""
        self._finalizer()


def _end(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    if process.poll() is None:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
