"""A server started by a tenant's process: within the sharing under test, watched, and stopped with its children."""

import contextlib
import http.client
import os
import re
import shlex
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence

from cotenant.clients.address import LOCAL, Address, ask
from cotenant.errors import WorkloadError
from cotenant.workloads.servers.spec import PORTS, ServerSpec, find_program

LOOK_S = 0.05
PATIENCE_S = 2.5
"""Time between the stop signal and SIGKILL."""
QUOTED_LINES = 3
_SIGNALS = {"term": signal.SIGTERM, "int": signal.SIGINT, "kill": signal.SIGKILL}

STARTED_BY_RUN = "COTENANT_STARTED_BY_RUN"
"""Tells a server of ours that the run that starts it holds the device for it."""


def program_of(spec: ServerSpec) -> str:
    """The program that starts the server.

    Raises:
        WorkloadError: There is none of that name.
    """
    name = shlex.split(spec.start)[0]
    program = find_program(name, spec.env.get("PATH"))
    if program is None:
        raise WorkloadError(
            f"there is no program `{name}` to start the server with",
            hint="give its path, or put its directory on PATH",
        )
    return program


class ServerProcess:
    """A running server. It inherits cores, environment and marks from the tenant's process that starts it."""

    def __init__(self, spec: ServerSpec) -> None:
        self._spec = spec
        ports = _free_ports(len(PORTS))
        self.port, grpc_port, metrics_port = ports
        self.address = Address(f"http://{LOCAL}:{self.port}", LOCAL, self.port)
        self.grpc_address = Address(f"grpc://{LOCAL}:{grpc_port}", LOCAL, grpc_port, scheme="grpc")
        own = Address(f"http://{LOCAL}:{metrics_port}", LOCAL, metrics_port)
        self.metrics_address = own if spec.has_metrics_port else self.address
        arguments = spec.arguments(*ports)
        self.started_as = shlex.join(arguments)
        program = program_of(spec)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        try:
            self._process = subprocess.Popen(
                [program, *arguments[1:]],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                env={**os.environ, STARTED_BY_RUN: "1", **spec.env},
                start_new_session=True,  # its own process group: stopping it reaches all its children
            )
        except OSError as error:
            self._log.close()
            raise WorkloadError(f"the server can't be started: {error.strerror or error}") from error

    @property
    def pid(self) -> int:
        """Id of its first process."""
        return self._process.pid

    def wait_until_ready(self) -> float:
        """Seconds until its ready path answered with a 2xx.

        Raises:
            WorkloadError: It ended first, or took too long; with the last lines of its log.
        """
        begin = time.monotonic()
        last = "nothing listened"
        while True:
            if (gone := self.gone()) is not None:
                raise WorkloadError(f"the server {gone}")
            try:
                status, _ = ask(self.address, self._spec.ready, within_s=2.0)
            except (OSError, http.client.HTTPException):
                last = "nothing answered"
            else:
                if 200 <= status < 300:
                    return time.monotonic() - begin
                last = f"it answered {status}"
            waited = time.monotonic() - begin
            if waited > self._spec.ready_within_s:
                raise WorkloadError(
                    f"the server was not ready after {waited:.0f} s: {last} at {self._spec.ready}{self._log_ends()}"
                )
            time.sleep(LOOK_S)

    def gone(self, *, within_s: float = 0.0) -> str | None:
        """How it ended, now or within this time, with the last lines of its log; None if it is running."""
        try:
            code = self._process.wait(timeout=within_s)
        except subprocess.TimeoutExpired:
            return None
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"{how}{self._log_ends()}{self._in_background()}"

    def resolved(self) -> dict[str, int]:
        """Cache, batch limits and device that its log names."""
        if self._log.closed:
            return {}
        return read_log(os.pread(self._log.fileno(), READ_BYTES, 0).decode(errors="replace"))

    def stop(self) -> None:
        """Ask it to exit, wait, then kill its group and any other processes it started."""
        import psutil

        offspring = []
        with contextlib.suppress(psutil.Error):
            offspring = psutil.Process(self.pid).children(recursive=True)
        self._signal(_SIGNALS[self._spec.stop])
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=PATIENCE_S)
        self._signal(signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=PATIENCE_S)
        for process in offspring:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(offspring, timeout=PATIENCE_S)
        self._log.close()

    def _in_background(self) -> str:
        """A start line that returns without an error has probably put its server into the background."""
        return "; a server must stay in the foreground until it is stopped" if self._process.returncode == 0 else ""

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _log_ends(self) -> str:
        if self._log.closed:
            return ""
        size = os.fstat(self._log.fileno()).st_size
        tail = os.pread(self._log.fileno(), 4096, max(size - 4096, 0)).decode(errors="replace")
        lines = ["".join(c if c.isprintable() else "?" for c in line).strip() for line in tail.splitlines()]
        last = [line[-120:] for line in lines if line][-QUOTED_LINES:]
        return f"; its log ends: {' / '.join(last)}" if last else "; it logged nothing"


def _free_ports(count: int) -> list[int]:
    """Distinct ports: all are held until the last is found."""
    with contextlib.ExitStack() as held:
        ports = []
        for _ in range(count):
            probe = held.enter_context(socket.socket())
            probe.bind((LOCAL, 0))
            ports.append(int(probe.getsockname()[1]))
        return ports


def listening(address: Address) -> tuple[int, ...]:
    """Processes that listen there; empty if the server is elsewhere or another user's."""
    if not address.local:
        return ()
    import psutil

    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.Error:
        return ()
    pids = {
        connection.pid
        for connection in connections
        if connection.status == psutil.CONN_LISTEN
        and connection.laddr
        and connection.laddr.port == address.port
        and connection.pid is not None
    }
    return tuple(sorted(pids))


# What a server resolved at its start, as its log says: cache, batch limits and device.

READ_BYTES = 1 << 20
"""Of the start of the log: the rest is about requests."""

_NUMBER = r"([\d,]*\d)"
PATTERNS: Mapping[str, tuple[str, ...]] = {
    "cache_tokens": (
        rf"KV cache size: {_NUMBER} tokens",
        rf"\bmax_total_num_tokens\W{{1,3}}{_NUMBER}",
    ),
    "cache_blocks": (rf"# (?:GPU|CPU) blocks: {_NUMBER}", rf"\bnum_gpu_blocks\W{{1,3}}{_NUMBER}"),
    "context_tokens": (
        rf"Maximum concurrency for {_NUMBER} tokens",
        rf"\bcontext_len\W{{1,3}}{_NUMBER}",
        rf"new slot,? n_ctx(?:_slot)? = {_NUMBER}",
    ),
    "sequences_at_once": (
        rf"\bmax_num_seqs\W{{1,3}}{_NUMBER}",
        rf"\bmax_running_requests\W{{1,3}}{_NUMBER}",
        rf"\bn_slots = {_NUMBER}",
    ),
    "tokens_per_step": (
        rf"\bmax_num_batched_tokens\W{{1,3}}{_NUMBER}",
        rf"\bchunked_prefill_size\W{{1,3}}{_NUMBER}",
    ),
    "layers_on_gpu": (rf"offloaded {_NUMBER}/\d+ layers to GPU",),
}
"""By quantity, in the order of preference."""


def read_log(text: str) -> dict[str, int]:
    """The quantities that the log names; of several values the last counts, which is the resolved value."""
    resolved = {}
    for quantity, patterns in PATTERNS.items():
        for pattern in patterns:
            values = re.findall(pattern, text)
            if values:
                resolved[quantity] = int(values[-1].replace(",", ""))
                break
    return resolved


def differences(copies: Sequence[tuple[str, Mapping[str, int]]]) -> list[str]:
    """A sentence for each quantity that copies of a server resolved differently: (name, quantities) of each."""
    sentences = []
    for quantity in dict.fromkeys(key for _, resolved in copies for key in resolved):
        by_value: dict[int | None, list[str]] = {}
        for name, resolved in copies:
            by_value.setdefault(resolved.get(quantity), []).append(name)
        if len(by_value) > 1:
            parts = [
                f"{', '.join(names)}: {'unknown' if value is None else f'{value:,}'}"
                for value, names in by_value.items()
            ]
            sentences.append(f"{quantity.replace('_', ' ')} differ: {'; '.join(parts)}")
    return sentences
