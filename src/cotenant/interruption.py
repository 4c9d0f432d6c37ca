"""Ctrl-C, neither lost nor mistaken: a library in the midst of a call may swallow it, or make an error of it."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class _Wish:
    """What is known of the user's wish to stop."""

    came = False
    holds = 0


_wish = _Wish()


def strike(number: int, frame: FrameType | None) -> None:
    """The handler of a signal that asks to stop."""
    del number, frame
    _wish.came = True
    if not _wish.holds:
        raise KeyboardInterrupt


@contextmanager
def heard() -> Iterator[None]:
    """Note each Ctrl-C before it is raised, so that `came` and `obey` know of it."""
    ours = (
        threading.current_thread() is threading.main_thread()  # no other gets signals
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else somebody else sees to it, or we did
    )
    if not ours:
        yield
        return
    signal.signal(signal.SIGINT, strike)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _wish.came = False


@contextmanager
def held() -> Iterator[None]:
    """A Ctrl-C in the midst of this is raised at its end: for steps that are short and must be whole."""
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
    return _wish.came


def obey() -> None:
    """Stop now if somebody asked for it and nobody did. Raises KeyboardInterrupt."""
    if _wish.came:
        raise KeyboardInterrupt
