"""Exit codes, so that scripts need not parse text."""

from enum import IntEnum


class Exit(IntEnum):
    """The exit codes of every verb."""

    OK = 0
    ERROR = 1
    """Wrong usage, wrong input, or something broke."""
    NOT_READY = 2
    """The machine is not ready, or the result is not stable enough to use."""
    BREACH = 3
    """A regression or a broken objective."""
    HUNG_UP = 129
    """The terminal was closed; measurements so far are on disk."""
    INTERRUPTED = 130
    """Ctrl-C; likewise."""
    TERMINATED = 143
    """Ended by a service manager or a batch system; likewise."""
