"""The fork server: `python -m cotenant.measure.tenants.forking FD`. Loads modules, then forks a host for each order.

Single-threaded, it runs nothing of the workloads, so that a fork inherits loaded modules and nothing else: no thread
pool has been started. Requests and replies are JSON packets on a socket; descriptors travel beside.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

from cotenant.measure.tenants import host
from cotenant.measure.tenants.reaper import VARIABLE

ORDER_BYTES = 1 << 16
MOST_FDS = 250
"""The kernel passes at most 253 at a time."""
ENV_START, ENV_END = 49, 50
"""Fields of /proc/self/stat, counted from 0: the addresses of the initial environment."""


def main(control_fd: int) -> None:
    """Serve orders until the runner closes the socket. A fork leaves the loop and is a host until it returns."""
    host.die_with_the_parent()
    os.set_inheritable(control_fd, False)
    control = socket.socket(fileno=control_fd)
    while True:
        data, fds, _, _ = socket.recv_fds(control, ORDER_BYTES, MOST_FDS)
        if not data:
            return
        order = json.loads(data)
        if "wait" in order:
            control.send(json.dumps({"code": _exit_code(order["wait"])}).encode())
        elif (answer := _fork(order, fds)) is not None:
            control.send(json.dumps(answer).encode())
        else:
            control.close()
            host.main(fds[1])
            return


def _exit_code(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _fork(order: dict[str, Any], fds: list[int]) -> dict[str, Any] | None:
    """The reply in the server; None in the fork."""
    for module in order["modules"]:
        with contextlib.suppress(Exception):  # a module that can't be loaded fails in the tenant, with the reason
            importlib.import_module(module)
    gc.collect()
    gc.freeze()  # a collection in a fork must not touch, and so copy, what it shares with the others
    server = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        pid, failure = -1, {"errno": error.errno}
    if pid == 0:
        host.die_with_the_parent()
        if os.getppid() != server:
            os._exit(1)
        os.setsid()
        os.dup2(fds[0], 1)
        os.dup2(fds[0], 2)
        os.close(fds[0])
        _relabel(order["mark"])
        return None
    for fd in fds:
        os.close(fd)
    return failure if pid < 0 else {"pid": pid, "fds": fds[2:]}


def _relabel(mark: str) -> None:
    """Put the host's own mark into its environment as the kernel shows it: marks are as long as the server's.

    It identifies processes forked by a workload, even outside the session.
    """
    os.environ[VARIABLE] = mark
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[ENV_START - 2]), int(fields[ENV_END - 2])
    at = ctypes.string_at(start, end - start).find(f"{VARIABLE}=".encode()) if start else -1
    if at >= 0:
        ctypes.memmove(start + at + len(VARIABLE) + 1, mark.encode(), len(mark))


if __name__ == "__main__":
    main(int(sys.argv[1]))
