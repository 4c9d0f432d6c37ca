"""Requests to stop, such as Ctrl-C, that survive libraries which swallow them or turn them into other errors."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

ONE_WISH_S = 0.1
"""Signals this close together are one request: a terminal and its shell each forward Ctrl-C."""
_DEFAULTS: dict[signal.Signals, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,  # a service manager or a batch system ends the job
    signal.SIGHUP: signal.SIG_DFL,  # the terminal was closed
}
"""Signals that request a stop, with the default handlers that may be replaced."""


class _Wish:
    """State of the request to stop."""

    came: signal.Signals | None = None
    at_s = 0.0
    holds = 0


_wish = _Wish()


def strike(number: int, frame: FrameType | None) -> None:
    """Handler of a signal that requests a stop."""
    del frame
    now = time.monotonic()
    again = _wish.came is not None and now - _wish.at_s < ONE_WISH_S
    if _wish.came is None:
        _wish.came = signal.Signals(number)
    _wish.at_s = now
    if not _wish.holds and not again:
        raise KeyboardInterrupt


@contextmanager
def heard() -> Iterator[None]:
    """Record each request to stop before it is raised, so that `came` and `obey` know about it."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
        yield
        return
    # Leave other handlers alone: they belong to the caller, or are ours. `nohup` ignores SIGHUP.
    ours = [number for number, usual in _DEFAULTS.items() if signal.getsignal(number) is usual]
    for number in ours:
        signal.signal(number, strike)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, _DEFAULTS[number])
        if ours:
            _wish.came = None


@contextmanager
def held() -> Iterator[None]:
    """Postpone a request to stop until the end of the block: for short steps that must complete."""
    with heard():
        _wish.holds += 1
        try:
            yield
        finally:
            _wish.holds -= 1
        if not _wish.holds:
            obey()


def came() -> bool:
    """True if a stop was requested, whatever became of it."""
    return _wish.came is not None


def ended() -> bool:
    """Take Ctrl-C as the usual end of something that has no other; False if another signal requested the stop."""
    if _wish.came not in {None, signal.SIGINT}:
        return False
    _wish.came = None
    return True


def exit_code() -> int:
    """Exit code of a process that was asked to stop: 128 plus the signal number."""
    return 128 + (_wish.came or signal.SIGINT)


def obey() -> None:
    """Stop now if a stop was requested and has not happened. Raises KeyboardInterrupt."""
    if _wish.came is not None:
        raise KeyboardInterrupt
