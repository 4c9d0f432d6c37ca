"""Starts tenant processes: as forks of a server that has loaded what they import, or each as a separate program.

Importing torch and transformers takes about six seconds of a core, and `quick` needs seven processes for three models.
The fork server (`forking.py`) imports once; a fork of it is ready in milliseconds. Profilers only follow programs that
are executed, and drivers of GPUs don't survive a fork, so profile passes and GPUs start each process separately.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cotenant.errors import TenantFailed
from cotenant.measure.profile.tenant_side import VARIABLE as PROFILE
from cotenant.measure.tenants.reaper import VARIABLE as MARK

REPLY_BYTES = 1 << 16
LOAD_S = 600.0
"""Longest wait for a fork, which includes importing its modules."""
REPLY_S = 10.0
"""Longest wait for any other reply."""
END_S = 5.0
POLL_S = 0.002


class Process(Protocol):
    """The part of `subprocess.Popen` that the runner uses."""

    @property
    def pid(self) -> int:
        """Process id."""
        ...

    def poll(self) -> int | None:
        """Exit code, or None while it runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit code; raise `subprocess.TimeoutExpired` after the timeout."""
        ...

    def kill(self) -> None:
        """Send SIGKILL."""
        ...


@dataclass(frozen=True, slots=True)
class TenantStart:
    """A tenant process to start."""

    forked: bool
    env: Mapping[str, str]
    mark: str
    modules: tuple[str, ...]
    """Modules its tenants will import."""
    control: socket.socket
    log_fd: int
    fds: tuple[int, ...]
    """Shared memory it needs."""


@dataclass(frozen=True, slots=True)
class Started:
    """A tenant process, and the numbers of its inherited descriptors."""

    process: Process
    fds: tuple[int, ...]


class Starter:
    """Starts tenant processes, with a fork server per environment, which libraries read when loaded."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._servers: dict[frozenset[tuple[str, str]], ForkServer] = {}

    def start(self, wanted: TenantStart) -> Started:
        """Start one.

        Raises:
            TenantFailed: The fork server died while it loaded the modules.
        """
        if not wanted.forked or sys.platform != "linux" or PROFILE in os.environ or PROFILE in wanted.env:
            return _execute(wanted)
        key = frozenset(wanted.env.items())
        server = self._servers.get(key)
        if server is not None and not server.alive:
            server.close()
            server = None
        if server is None:
            server = self._servers[key] = ForkServer(wanted.env, self._mark)
        return server.fork(wanted)

    def close(self) -> None:
        """End the fork servers, and with them every process they started."""
        for server in self._servers.values():
            server.close()
        self._servers = {}


class ForkServer:
    """The runner's end of a fork server."""

    def __init__(self, env: Mapping[str, str], mark: str) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "cotenant.measure.tenants.forking", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **env, MARK: f"{mark}-{'0' * 16}"},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )

    @property
    def alive(self) -> bool:
        """True if it can take orders."""
        return self._process.poll() is None

    def fork(self, wanted: TenantStart) -> Started:
        """A fork with these descriptors."""
        fds = [wanted.log_fd, wanted.control.fileno(), *wanted.fds]
        try:
            answer = self._ask({"mark": wanted.mark, "modules": wanted.modules}, LOAD_S, fds)
        except (ConnectionError, TimeoutError) as error:
            code = self._process.wait()
            slow = isinstance(error, TimeoutError)
            fate = f"was not ready after {LOAD_S:g} s" if slow else f"ended with exit code {code}"
            raise TenantFailed(
                f"the process that loads {', '.join(wanted.modules)} for the tenants {fate}",
                hint=f'try `{sys.executable} -c "import {", ".join(wanted.modules)}"`',
            ) from None
        if "errno" in answer:
            raise OSError(answer["errno"], os.strerror(answer["errno"]))
        return Started(Forked(self, answer["pid"]), tuple(answer["fds"]))

    def exit_code(self, pid: int) -> int | None:
        """Exit code of a fork, or None while it runs. A server that is gone took its forks with it."""
        try:
            code: int | None = self._ask({"wait": pid}, REPLY_S)["code"]
        except OSError:
            return -signal.SIGKILL
        return code

    def close(self) -> None:
        """End it."""
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=END_S)
        self._process.kill()
        self._process.wait()

    def _ask(self, order: dict[str, Any], limit_s: float, fds: Sequence[int] = ()) -> dict[str, Any]:
        """Its reply. A server that doesn't reply is killed: a late reply would be taken for the next server's."""
        try:
            self._control.settimeout(limit_s)
            socket.send_fds(self._control, [json.dumps(order).encode()], fds)
            data = self._control.recv(REPLY_BYTES)
            answer: dict[str, Any] | None = json.loads(data) if data else None
        except BaseException as error:
            if not isinstance(error, ConnectionError):
                self._process.kill()
            raise
        if answer is None:
            raise ConnectionError
        return answer


class Forked:
    """A process started by a fork server."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self._server, self.pid = server, pid
        self._code: int | None = None

    def poll(self) -> int | None:
        """Exit code, or None while it runs."""
        if self._code is None:
            self._code = self._server.exit_code(self.pid)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit code."""
        end = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            time.sleep(POLL_S)
        return code

    def kill(self) -> None:
        """Send SIGKILL, unless its pid may have been reused."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def _execute(wanted: TenantStart) -> Started:
    process = subprocess.Popen(
        [sys.executable, "-m", "cotenant.measure.tenants.host", str(wanted.control.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=wanted.log_fd,
        stderr=wanted.log_fd,
        env={**os.environ, **wanted.env, MARK: wanted.mark},
        pass_fds=(wanted.control.fileno(), *wanted.fds),
        start_new_session=True,  # Ctrl-C goes to the runner, which then ends its tenants in order
    )
    return Started(process, wanted.fds)
