"""Ctrl-C and other wishes to end, neither lost nor mistaken: a library may swallow one, or make an error of it."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

ONE_WISH_S = 0.1
"""Signals that come so soon after another one are the same wish: a terminal and its shell each pass Ctrl-C on."""
_DEFAULTS: dict[signal.Signals, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,  # a service manager or a batch system ends the job
    signal.SIGHUP: signal.SIG_DFL,  # the terminal was closed
}
"""Wishes to end, with what is set for them where nobody else handles or ignores them."""


class _Wish:
    """What is known of the user's wish to stop."""

    came: signal.Signals | None = None
    at_s = 0.0
    holds = 0


_wish = _Wish()


def strike(number: int, frame: FrameType | None) -> None:
    """The handler of a signal that asks to stop."""
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
    """Note each wish to end before it is raised, so that `came` and `obey` know of it."""
    if threading.current_thread() is not threading.main_thread():  # no other gets signals
        yield
        return
    # Where another handler is set somebody else takes care of it, or we did; `nohup` ignores the end of a terminal.
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
    """A wish in the midst of this is raised at its end: for steps that are short and must be whole."""
    with heard():
        _wish.holds += 1
        try:
            yield
        finally:
            _wish.holds -= 1
        if not _wish.holds:
            obey()


def came() -> bool:
    """Whether somebody asked to stop, whatever became of it."""
    return _wish.came is not None


def exit_code() -> int:
    """What a process that was asked to stop ends with: 128 and the signal's number."""
    return 128 + (_wish.came or signal.SIGINT)


def obey() -> None:
    """Stop now if somebody asked for it and nobody did. Raises KeyboardInterrupt."""
    if _wish.came is not None:
        raise KeyboardInterrupt
