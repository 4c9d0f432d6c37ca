"""What the exit code says, so that scripts need not read text."""

from enum import IntEnum


class Exit(IntEnum):
    """The exit codes of every verb."""

    OK = 0
    ERROR = 1
    """Wrong usage, wrong input, or something broke."""
    NOT_READY = 2
    """The machine is not ready, or what came out is not stable enough to be used."""
    BREACH = 3
    """A regression or a broken objective."""
    HUNG_UP = 129
    """The terminal was closed; what was measured until then is on disk."""
    INTERRUPTED = 130
    """Ctrl-C; likewise."""
    TERMINATED = 143
    """Ended by a service manager or a batch system; likewise."""
