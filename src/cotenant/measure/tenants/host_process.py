"""The runner's side of tenant processes: starts, talks to, watches and ends them."""

import contextlib
import logging
import os
import selectors
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from cotenant.devices.protocol import HostPlan
from cotenant.measure.fit import says_out_of_memory
from cotenant.measure.tenants.arena import shared_memory_fd
from cotenant.measure.tenants.messages import BuildOrder, HostReady, HostResult, SeatOrderMessage, SequenceOrder
from cotenant.measure.tenants.own_use import tree
from cotenant.measure.tenants.reaper import end_marked
from cotenant.measure.tenants.starting import Started, TenantStart
from cotenant.tenancy.nouns import Tenant
from cotenant.workloads.catalogue import modules_of

log = logging.getLogger(__name__)

LOG_KEPT_BYTES = 1 << 20
"""Size at which a tenant's log restarts."""
ANSWER_LIMIT_BYTES = 16 << 20
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
        mark: str,
        start: Callable[[TenantStart], Started],
    ) -> None:
        self.tenants = tuple(tenants)
        self.arena_fds = tuple(shared_memory_fd("cotenant-arena") for _ in tenants)
        self.ready: HostReady | None = None
        self.fate: str | None = None
        """How it ended, once it has."""
        self._mark = f"{mark}-{os.urandom(8).hex()}"
        self._oom_kills = _kernel_oom_kills()
        self._received = b""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._control, theirs = socket.socketpair()
        with theirs:
            started = start(
                TenantStart(
                    forked=plan.forked,
                    env=plan.env,
                    mark=self._mark,
                    modules=tuple(sorted({name for tenant in tenants for name in modules_of(tenant.workload.name)})),
                    control=theirs,
                    log_fd=self._log.fileno(),
                    fds=(board_fd, *self.arena_fds),
                )
            )
        self._process = started.process
        self._death_fd = _death_fd(self._process.pid)
        self._say(
            BuildOrder(
                device=device,
                board_fd=started.fds[0],
                seats=tuple(
                    SeatOrderMessage(tenant=tenant, options=dict(seat.options), arena_fd=fd)
                    for tenant, seat, fd in zip(tenants, plan.seats, started.fds[1:], strict=True)
                ),
                warm_at_least_s=warm_s[0],
                warm_at_most_s=warm_s[1],
            ).model_dump_json()
        )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def pids(self) -> tuple[int, ...]:
        """Its process, and those that serve for its tenants."""
        beside = tree(pid for seat in self.ready.seats for pid in seat.beside) if self.ready else ()
        return (self.pid, *beside)

    @property
    def alive(self) -> bool:
        """True if it can be talked to, as far as known."""
        return self.fate is None

    def still_alive(self) -> bool:
        """The same, after checking: it may have died unnoticed."""
        if self.alive and self._process.poll() is not None:
            self._note_death()
        return self.alive

    def descriptors(self) -> tuple[int, ...]:
        """For select: readable when it has answered or is gone."""
        # Its socket alone is not enough: a forked process may hold the other end open.
        return (self._control.fileno(), *(() if self._death_fd is None else (self._death_fd,)))

    def start_sequence(self, order: SequenceOrder) -> None:
        """Send it an order."""
        self._say(order.model_dump_json())

    def receive(self) -> HostReady | HostResult | None:
        """Its answer if complete; None if not yet, or if it is gone (see `fate`)."""
        try:
            data = self._control.recv(1 << 16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            self.still_alive()
            return None
        except ConnectionError:
            data = b""
        if not data:
            self._note_death()
            return None
        self._received += data
        line, end, rest = self._received.partition(b"\n")
        if not end and len(line) < ANSWER_LIMIT_BYTES:
            return None
        self._received = rest
        try:
            if self.ready is None:
                self.ready = HostReady.model_validate_json(line)
                return self.ready
            return HostResult.model_validate_json(line)
        except ValueError:
            self.kill("sent an invalid control message")
            return None

    def kill(self, why: str) -> None:
        """End it at once; ``why`` goes into the records."""
        if self.alive:
            self._end()
            self.fate = why

    def dismiss(self) -> None:
        """Ask it to exit, without waiting."""
        if self.alive:
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ask it to exit and wait; kill it after a while."""
        if self.alive:
            self.dismiss()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=CLOSE_S)
            self._end()
            self.fate = "closed"

    def trim_log(self) -> None:
        """Keep a verbose tenant from filling the disk."""
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
            self._process.wait(timeout=1)  # it closed its socket while exiting: let it finish
        words = self.last_words()
        code = self._end()
        by_kernel = code == -signal.SIGKILL and _kernel_oom_kills() > self._oom_kills
        self.fate = _describe_exit(code, ended_by_kernel=by_kernel, last_words=words)
        log.warning("tenant process %d %s", self.pid, self.fate)

    def _end(self) -> int:
        """End the process and all its children, release its resources, and return its exit code."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        code = self._process.wait()
        end_marked(self._mark)
        self._control.close()
        for fd in (*self.arena_fds, *(() if self._death_fd is None else (self._death_fd,))):
            os.close(fd)
        self.arena_fds, self._death_fd = (), None
        self._log.close()
        return code


def _describe_exit(code: int, *, ended_by_kernel: bool, last_words: str) -> str:
    if ended_by_kernel:
        return "ran out of memory: the kernel killed it"
    said = f" ({last_words})" if last_words else ""
    if code != -signal.SIGKILL and says_out_of_memory(last_words):
        return f"ran out of memory{said}"
    if code < 0:
        # Output before a SIGKILL is not the reason.
        return f"was killed by {_signal_name(-code)}{said if code != -signal.SIGKILL else ''}"
    return f"ended with exit code {code}{said}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _death_fd(pid: int) -> int | None:
    """Readable when the process has ended; None where the system has no pidfd."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _kernel_oom_kills() -> int:
    """Number of out-of-memory kills since boot; 0 where the kernel doesn't say."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


# --- waits for the answers of several tenant processes at once, and notices when any dies

LOOK_S = 1.0
"""How often a tenant's log is checked, so that endless output can't fill the disk during a trial."""


def answers(
    hosts: Sequence[HostProcess], until_ns: Callable[[], int]
) -> Iterator[tuple[HostProcess, HostReady | HostResult | None]]:
    """Yield each host with its answer as it arrives, or with None once it is dead; silent ones are not yielded."""
    yield from ((host, None) for host in hosts if not host.alive)
    watched = {host: host.descriptors() for host in hosts if host.alive}
    with selectors.DefaultSelector() as selector:
        for host, descriptors in watched.items():
            for descriptor in descriptors:
                selector.register(descriptor, selectors.EVENT_READ, host)
        while watched and (left_ns := until_ns() - time.monotonic_ns()) > 0:
            events = selector.select(min(left_ns / 1e9, LOOK_S))
            for host in dict.fromkeys(key.data for key, _ in events):
                answer = host.receive()
                if answer is None and host.alive:
                    continue
                for descriptor in watched.pop(host):
                    selector.unregister(descriptor)
                yield host, answer
            for host in watched:
                host.trim_log()
