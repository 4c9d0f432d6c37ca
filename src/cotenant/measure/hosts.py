"""The runner's side of tenant processes: start, talk to, watch and end them."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cotenant.devices.protocol import HostPlan
from cotenant.measure.arena import shared_memory_fd
from cotenant.measure.messages import BuildOrder, HostReady, HostResult, SeatOrderMessage, TrialOrder
from cotenant.tenancy import Tenant

LOG_KEPT_BYTES = 1 << 20
"""A tenant may print what it likes; beyond this its log starts again after the trial."""
CLOSE_S = 5.0


class HostProcess:
    """One tenant process, as the runner sees it."""

    def __init__(
        self,
        device: str,
        plan: HostPlan,
        tenants: Sequence[Tenant],
        *,
        board_fd: int,
        warm_s: tuple[float, float],
    ) -> None:
        self.tenants = tuple(tenants)
        self.arena_fds = tuple(shared_memory_fd("cotenant-arena") for _ in tenants)
        self.ready: HostReady | None = None
        self.fate: str | None = None
        """How it ended, once it has."""
        self.out_of_memory = False
        self._oom_kills = _kernel_oom_kills()
        self._received = b""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "cotenant.measure.host", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                env={**os.environ, **plan.env},
                pass_fds=(theirs.fileno(), board_fd, *self.arena_fds),
                start_new_session=True,  # Ctrl-C is for the runner, which then ends its tenants in order
            )
        self._say(
            BuildOrder(
                device=device,
                board_fd=board_fd,
                seats=tuple(
                    SeatOrderMessage(tenant=tenant, options=dict(seat.options), arena_fd=fd)
                    for tenant, seat, fd in zip(tenants, plan.seats, self.arena_fds, strict=True)
                ),
                warm_at_least_s=warm_s[0],
                warm_at_most_s=warm_s[1],
            ).model_dump_json()
        )

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Still to be talked to."""
        return self.fate is None

    def fileno(self) -> int:
        """For select: readable when it has answered or is gone."""
        return self._control.fileno()

    def start_trial(self, order: TrialOrder) -> None:
        """Tell it to serve."""
        self._say(order.model_dump_json())

    def receive(self) -> HostReady | HostResult | None:
        """Its answer if a whole one has come; None: not yet, or it is gone (then `fate` says how)."""
        try:
            data = self._control.recv(1 << 16)
        except ConnectionError:
            data = b""
        if not data:
            self._note_death()
            return None
        self._received += data
        if b"\n" not in self._received:
            return None
        line, self._received = self._received.split(b"\n", 1)
        if self.ready is None:
            self.ready = HostReady.model_validate_json(line)
            return self.ready
        return HostResult.model_validate_json(line)

    def kill(self, why: str) -> None:
        """End it at once; ``why`` is what the records will say."""
        if self.alive:
            self.fate = why
        self._end_group(signal.SIGKILL)
        self._process.wait()
        self._release()

    def close(self) -> None:
        """Say goodbye and wait; insist after a while."""
        if self.alive:
            self.fate = "closed"
            self._control.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=CLOSE_S)
        self._end_group(signal.SIGKILL)
        self._process.wait()
        self._release()

    def trim_log(self) -> None:
        """Keep a talkative tenant from filling the disk."""
        if os.fstat(self._log.fileno()).st_size > LOG_KEPT_BYTES:
            os.ftruncate(self._log.fileno(), 0)
            os.lseek(self._log.fileno(), 0, os.SEEK_SET)

    def last_words(self) -> str:
        """The last line it printed, if any: often the reason."""
        size = os.fstat(self._log.fileno()).st_size
        tail = os.pread(self._log.fileno(), 4096, max(size - 4096, 0)).decode(errors="replace")
        lines = [line.strip() for line in tail.splitlines() if line.strip()]
        printable = "".join(c if c.isprintable() else "?" for c in lines[-1]) if lines else ""
        return printable[-200:]

    def _say(self, document: str) -> None:
        try:
            self._control.sendall(document.encode() + b"\n")
        except OSError:
            self._note_death()

    def _note_death(self) -> None:
        if not self.alive:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1)  # it closed its socket on its way out: let it get there by itself
        self._end_group(signal.SIGKILL)
        code = self._process.wait()
        self.out_of_memory = code == -signal.SIGKILL and _kernel_oom_kills() > self._oom_kills
        self.fate = _describe_exit(code, out_of_memory=self.out_of_memory, last_words=self.last_words())
        self._release()

    def _end_group(self, signal_number: int) -> None:
        """The whole session: a workload may have started processes of its own."""
        try:
            os.killpg(self._process.pid, signal_number)
        except (ProcessLookupError, PermissionError):
            if self._process.poll() is None:
                self._process.send_signal(signal_number)

    def _release(self) -> None:
        self._control.close()
        for fd in self.arena_fds:
            os.close(fd)
        self.arena_fds = ()
        self._log.close()


def _describe_exit(code: int, *, out_of_memory: bool, last_words: str) -> str:
    if out_of_memory:
        return "was ended by the kernel because memory ran out"
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}" + (f" ({last_words})" if last_words else "")


def _kernel_oom_kills() -> int:
    """How often the kernel has killed for want of memory since boot; 0 where it doesn't say."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
