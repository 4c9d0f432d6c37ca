"""Keeps one process on its node: a device's server, with the device's lock, or a front end. Lives in an actor."""

import os
import subprocess
import sys
import threading
from contextlib import ExitStack
from typing import Any

from cotenant.errors import CotenantError, FleetError
from cotenant.fleet import wire
from cotenant.fleet.agent import NodeAgent
from cotenant.measure.locking import device_lock

KINDS = {"device": "cotenant.fleet.serving.hosting", "front": "cotenant.fleet.serving.fronting"}
STOP_S = 5.0
"""Beyond the time to drain; then the process is killed."""


class Keeper(NodeAgent):
    """A process on this node; every method takes and returns bytes, and several may be called at once."""

    def __init__(self) -> None:
        super().__init__()
        self._held = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._one_at_a_time = threading.Lock()

    def start(self, order: bytes) -> bytes:
        """Start the process, and return its first reply; a problem as JSON."""
        asked = wire.unpacked(order)
        try:
            if asked["kind"] == "device":
                self._take(asked)
            return self._started(KINDS[asked["kind"]], asked)
        except CotenantError as error:
            self._held.close()
            return wire.problem(error)

    def tell(self, order: bytes) -> bytes:
        """Pass an order on, and return its reply; a problem as JSON."""
        try:
            with self._one_at_a_time:
                self._write(order)
                return self._read()
        except CotenantError as error:
            return wire.problem(error)

    def renew(self, until: bytes) -> bytes:
        """Extend the lease of a device's server."""
        try:
            self._write(wire.packed({"renew": wire.unpacked(until)}))
        except CotenantError as error:
            return wire.problem(error)
        return wire.packed(True)

    def watch(self) -> bytes:
        """Wait until the process ends; its exit code. Callers learn from it that the process or the actor is gone."""
        assert self._process is not None
        return wire.packed({"ended": self._process.wait()})

    def stop(self, within: bytes) -> bytes:
        """Finish accepted requests, then end."""
        within_s = float(wire.unpacked(within))
        process = self._process
        if process is not None and process.poll() is None:
            try:
                self._write(wire.packed({"stop": within_s}))
                process.wait(within_s + STOP_S)
            except (CotenantError, subprocess.TimeoutExpired):
                process.kill()
                process.wait()
        self._held.close()
        return wire.packed(True)

    def _take(self, asked: dict[str, Any]) -> None:
        """Hold the device: a run on it is refused meanwhile."""
        from cotenant.devices import find_device

        place = find_device(str(asked["file"]["device"]))
        if not place.simulated:
            self._held.enter_context(device_lock(place.lock_keys(), run=f"serve {asked['owner']}", purpose="serve"))

    def _started(self, module: str, asked: dict[str, Any]) -> bytes:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self._write(wire.packed(asked))
        return self._read()

    def _write(self, line: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise FleetError(
                "the server on this node has ended", hint="see its log in /tmp/ray/session_latest/logs"
            ) from None

    def _read(self) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise FleetError(
                f"the server on this node ended with exit code {self._process.wait()}",
                hint="see its log in /tmp/ray/session_latest/logs",
            )
        return line.rstrip(b"\n")
