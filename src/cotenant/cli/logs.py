"""The library's log messages, on stderr."""

import logging
import os
import time

from cotenant.errors import CotenantError

LEVELS = ("debug", "info", "warning", "error")
MOST_ALIKE = 20
"""Messages of a kind per minute: a client that sends rubbish must not fill a disk."""
MINUTE_S = 60.0


class OneLine(logging.Formatter):
    """One line for each message: a failure's traceback only with COTENANT_DEBUG, no control characters of clients."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s", "%Y-%m-%d %H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        if os.environ.get("COTENANT_DEBUG"):
            return super().format(record)
        shown = logging.makeLogRecord({**record.__dict__, "exc_info": None, "exc_text": None, "stack_info": None})
        line = super().format(shown)
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            line += f": {type(error).__name__}: {error} (COTENANT_DEBUG=1 shows where)"
        return "".join(char if char.isprintable() else repr(char)[1:-1] for char in line)


class FewAlike(logging.Filter):
    """Lets through so many messages of a kind per minute, and counts the others."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to show it."""
        kind = (record.name, str(record.msg))
        since, count = self._seen.get(kind, (-MINUTE_S, 0))
        now = time.monotonic()
        if now - since >= MINUTE_S:
            if count > MOST_ALIKE:
                record.msg, record.args = f"{record.getMessage()} ({count - MOST_ALIKE:,} more not shown)", None
            since, count = now, 0
        self._seen[kind] = since, count + 1
        return count < MOST_ALIKE


def log_to_stderr(level: str) -> None:
    """Show messages of this level and above.

    Raises:
        CotenantError: There is no such level.
    """
    if level.lower() not in LEVELS:
        raise CotenantError(f"COTENANT_LOG={level} is not a log level", hint=f"use one of {', '.join(LEVELS)}")
    logger = logging.getLogger("cotenant")
    shown = logging.StreamHandler()
    shown.setFormatter(OneLine())
    shown.addFilter(FewAlike())
    logger.handlers = [shown]  # once, however often a process calls the command line
    logger.setLevel(level.upper())
