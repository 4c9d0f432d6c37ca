"""A command that works by itself, such as a training script: a request is a progress report.

It runs only during its windows; otherwise its processes are stopped (SIGSTOP), so that others can
be measured without it.
"""

import asyncio
import contextlib
import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any

from cotenant.clients.openai_stream import AnswerTokens
from cotenant.errors import RequestFailed, WorkloadError
from cotenant.workloads.protocol import Mark

POLL_S = 0.005
"""How often a step file is checked; lines of a log are read as they arrive."""
KEPT = 4096
"""Bytes of recent output kept for errors."""
QUOTED_LINES = 3
PATIENCE_S = 2.5


class ProgressReports:
    """Where its progress shows: lines of its output that match, or changes to a file it writes."""

    def __init__(self, pattern: str | None, step_file: str | None) -> None:
        self._pattern = None if pattern is None else re.compile(pattern.encode())
        self._file = None if step_file is None else Path(step_file).expanduser()
        self._content = self._read()
        self._pending = b""

    @property
    def polled(self) -> bool:
        """True if it must be polled: nothing notifies us of changes."""
        return self._file is not None

    def lines(self, data: bytes) -> int:
        """Reports in its latest output. A carriage return ends a line too: progress bars rewrite theirs."""
        *lines, self._pending = re.split(rb"[\r\n]+", self._pending + data)
        self._pending = self._pending[-KEPT:]
        return 0 if self._pattern is None else sum(self._pattern.search(line) is not None for line in lines)

    def look(self) -> int:
        """1 if the file has changed since the last check."""
        before, self._content = self._content, self._read()
        return int(self._content is not None and self._content != before)

    def _read(self) -> bytes | None:
        if self._file is None:
            return None
        try:
            return self._file.read_bytes()[:KEPT]
        except OSError:
            return None


class ProgressClient:
    """The running command. Its output is read on the tenant's event loop."""

    slots: tuple[str, ...] = ("step",)
    first_output: int | None = None
    warm = 0
    ramp_s = 0.0

    def __init__(self, name: str, arguments: list[str], reports: ProgressReports, timeout_s: float) -> None:
        self._name, self._reports, self._timeout_s = name, reports, timeout_s
        self._waiting: asyncio.Future[None] | None = None
        self._silent = False
        self._reported = 0
        self._last = b""
        self._loop: asyncio.AbstractEventLoop | None = None
        try:
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # its own process group: its children are stopped and ended with it
                env={**os.environ, "PYTHONUNBUFFERED": "1"},  # a buffered log has no useful times
                bufsize=0,
            )
        except OSError as error:
            raise WorkloadError(f"`{name}` can't be started: {error.strerror or error}") from error
        assert self._process.stdout
        self._output = self._process.stdout.fileno()
        os.set_blocking(self._output, False)

    def begin(self, first_arrival: int) -> None:  # noqa: ARG002 - it has no schedule
        """Let it run; earlier reports don't count for this window."""
        self._take(self._drained())
        self._reported = 0
        self._signal(signal.SIGCONT)

    def rest(self) -> None:
        """Suspend it."""
        self._signal(signal.SIGSTOP)

    async def request(self, number: int, mark: Mark) -> AnswerTokens:  # noqa: ARG002 - steps are alike
        """Wait until it has reported once more."""
        if self._waiting is not None and not self._waiting.done():
            raise RequestFailed("one at a time", f"`{self._name}` runs by itself: its load is closed(1)")
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            loop.add_reader(self._output, self._readable)
        try:
            async with asyncio.timeout(self._timeout_s):
                while not self._reported:
                    await self._next(loop)
        except TimeoutError:
            raise RequestFailed(
                "timeout",
                f"`{self._name}` reported no progress within {self._timeout_s:g} s{self._said()}",
                hint="check `progress` or `step_file`; `params: {timeout_s: ...}` waits longer",
            ) from None
        self._reported -= 1
        mark(0, time.monotonic_ns())
        return AnswerTokens()

    async def close(self) -> None:
        """Stop reading."""
        if self._loop is not None:
            self._loop.remove_reader(self._output)

    def pids(self) -> tuple[int, ...]:
        """Id of its first process."""
        return (self._process.pid,)

    def gone(self) -> str | None:
        """How it ended, if it has."""
        code = self._process.poll()
        if code is None:
            return None
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"`{self._name}` {how}{self._said()}"

    def stop(self) -> None:
        """End it and all its children."""
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=PATIENCE_S)
        self._signal(signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=PATIENCE_S)
        assert self._process.stdout
        self._process.stdout.close()

    async def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait until there is something new."""
        if self.gone() is not None:
            self._take(self._drained())  # before quoting it: the end of its output may not have been read yet
            if not self._reported:
                raise RequestFailed("ended", str(self.gone()))
            return
        if self._reports.polled:
            await asyncio.sleep(POLL_S)
            self._reported += self._reports.look()
            return
        if self._silent:  # nothing will wake us: it is about to end, or continues silently
            await asyncio.sleep(POLL_S)
            return
        self._waiting = loop.create_future()
        await self._waiting

    def _readable(self) -> None:
        data = self._drained()
        self._take(data)
        if not data and self._loop is not None:  # its output is closed: it has ended, or won't print more
            self._loop.remove_reader(self._output)
            self._silent = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _take(self, data: bytes) -> None:
        self._last = (self._last + data)[-KEPT:]
        self._reported += self._reports.lines(data)

    def _drained(self) -> bytes:
        parts: deque[bytes] = deque()
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self._output, 1 << 16):
                parts.append(piece)
        return b"".join(parts)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _said(self) -> str:
        lines = [line.strip() for line in self._last.decode(errors="replace").splitlines() if line.strip()]
        last = ["".join(c if c.isprintable() else "?" for c in line)[-120:] for line in lines[-QUOTED_LINES:]]
        return f"; its output ends: {' / '.join(last)}" if last else "; it wrote nothing"


def run_aside(what: str, command: str, limit_s: float) -> None:
    """Run a command before or after the measured command.

    Raises:
        WorkloadError: It can't be started, fails, or takes too long.
    """
    with tempfile.TemporaryFile() as log:
        try:
            done: Any = subprocess.run(
                shlex.split(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=limit_s, check=False
            )
        except (OSError, ValueError) as error:
            raise WorkloadError(f"the {what} command `{command}` can't be started: {error}") from None
        except subprocess.TimeoutExpired:
            raise WorkloadError(f"the {what} command `{command}` took more than {limit_s:g} s") from None
        if done.returncode:
            log.seek(0)
            lines = log.read()[-KEPT:].decode(errors="replace").strip().splitlines()
            last_line = f": {lines[-1].strip()[:200]}" if lines else ""
            raise WorkloadError(f"the {what} command `{command}` ended with exit code {done.returncode}{last_line}")
