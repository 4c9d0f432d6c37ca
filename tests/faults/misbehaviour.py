"""Tenants that misbehave, each in one way. Copied into the working folder of the tests' tenants."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Request = Callable[[], None]
WARM = 5
"""The warm-up of these tests serves one request, so that a fault from here on happens in a trial."""


def _from_request(number: int, fault: Request) -> Request:
    served = 0

    def request() -> None:
        nonlocal served
        served += 1
        time.sleep(0.0005)
        if served >= number:
            fault()

    return request


def hangs() -> Request:
    """Blocks forever once a trial is running."""
    return _from_request(WARM, threading.Event().wait)


def is_killed(params: Mapping[str, Any]) -> Request:
    """Is killed after some requests of the trial in which a file is there."""
    file, left = Path(params["file"]), 20

    def request() -> None:
        nonlocal left
        time.sleep(0.002)
        left -= file.exists()
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    return request


def raises(params: Mapping[str, Any]) -> Request:
    """Raises at one request, or at all from there on."""
    left = params.get("times", 10**9)

    def fault() -> None:
        nonlocal left
        if left > 0:
            left -= 1
            raise ValueError("no answer\nto this request")

    return _from_request(params.get("at", WARM), fault)


def raises_when_built() -> Request:
    """Can't be built."""
    raise KeyError("width")


def lacks_memory_when_built() -> Request:
    """Needs more memory than available, at once."""
    _limit_memory()
    hoard = bytearray(1 << 40)
    return hoard.clear


def lacks_memory(params: Mapping[str, Any]) -> Request:
    """Needs more and more memory."""
    kept: list[bytearray] = []

    def fault() -> None:
        if "says" in params:
            raise RuntimeError(params["says"])
        _limit_memory()
        while True:
            kept.append(bytearray(16 << 20))

    return _from_request(WARM, fault)


def _limit_memory() -> None:
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + (64 << 20),) * 2)


def aborts() -> Request:
    """Ends like C++ when memory runs out."""

    def fault() -> None:
        os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
        os.abort()

    return _from_request(WARM, fault)


def prints() -> Request:
    """Prints a lot, little of it text, then closes its output."""
    rubbish = bytes(range(256)) * 4096

    def fault() -> None:
        for fd in (1, 2):
            os.write(fd, rubbish)
        sys.stdout.write("\x1b[2J[red]\n")
        sys.stdout.close()
        sys.stdout = sys.__stdout__ = open(os.devnull, "w")  # noqa: PTH123, SIM115 (a stream that stays open)

    return _from_request(WARM, fault)


def writes_everywhere() -> Request:
    """Writes garbage to every open file descriptor."""

    def rubbish(fd: int) -> None:
        os.set_blocking(fd, False)
        os.write(fd, b'{"kind": "result", "seats": "all"}\n' + b"\xff" * 8192)

    return _from_request(WARM, lambda: _with_every_descriptor(rubbish))


def cuts_everything_short() -> Request:
    """Truncates every file it holds."""
    return _from_request(WARM, lambda: _with_every_descriptor(lambda fd: os.ftruncate(fd, 0)))


def _with_every_descriptor(harm: Callable[[int], None]) -> None:
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 (numbers are wanted)
        try:
            harm(int(name))
        except OSError:
            continue


def leaves(params: Mapping[str, Any]) -> Request:
    """Ends its own process."""
    ways: dict[str, Request] = {
        "os._exit": lambda: os._exit(3),
        "sys.exit": lambda: sys.exit(3),
        "interrupt": lambda: (_ for _ in ()).throw(KeyboardInterrupt),
        "signal": lambda: os.kill(os.getpid(), params.get("signal", signal.SIGKILL)),
    }
    return _from_request(WARM, ways[params["by"]])


def has_children() -> Request:
    """Starts processes that outlive it: in its session, in their own, and by forking; then it is killed."""
    for new_session in (False, True):
        subprocess.Popen(["sleep", "1000"], start_new_session=new_session)
    _fork_a_sleeper()
    return _from_request(WARM, lambda: os.kill(os.getpid(), signal.SIGKILL))


def has_a_child() -> Request:
    """Works correctly, but starts a process that would outlive it."""
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    return lambda: time.sleep(0.002)


def _fork_a_sleeper() -> None:
    if os.fork() == 0:
        os.setsid()
        time.sleep(1000)
        os._exit(0)


def forks() -> Request:
    """Forks in a request and lets both processes continue; the child lags behind and fails."""
    parent = os.getpid()
    forked = False

    def fault() -> None:
        nonlocal forked
        if os.getpid() != parent:
            time.sleep(0.005)
            raise ValueError("I am only a child")
        if not forked:
            forked = True
            os.fork()

    return _from_request(WARM, fault)


def is_deaf() -> Request:
    """Ignores every signal that can be ignored, then hangs."""

    def fault() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        threading.Event().wait()

    return _from_request(WARM, fault)


def moves() -> Request:
    """Moves to cores it was not given."""
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    return lambda: time.sleep(0.001)
