"""The library's log messages, on stderr."""

import logging
import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import click

from cotenant.errors import CotenantError, DamagedTrials, IntegrityWarning

# --- warnings on the command line: ours as a sentence each; those of libraries are hidden


class Notices:
    """Messages shown so far; each is shown once. Not a dataclass: importing the module would slow down `--help`."""

    def __init__(self) -> None:
        self.said: set[str] = set()
        self.damage = False
        """Trials were left out: the answer does not cover everything that was measured."""


@contextmanager
def spoken(*, debug: bool) -> Iterator[Notices]:
    """Print our warnings to stderr. A library's warning names its own files and lines, useful only when debugging."""
    notices = Notices()

    def show(  # noqa: PLR0917  (the signature of `warnings.showwarning`)
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if not issubclass(category, IntegrityWarning):
            usual(message, category, filename, lineno, file, line)
            return
        notices.damage |= issubclass(category, DamagedTrials)
        if str(message) not in notices.said:
            from cotenant.reporting.terminal.literal import literal

            notices.said.add(str(message))
            click.echo(f"{click.style('warning:', fg='yellow')} {literal(str(message))}", file=sys.stderr)

    with warnings.catch_warnings():
        usual = warnings.showwarning
        if not debug:
            warnings.simplefilter("ignore")
        warnings.simplefilter("always", IntegrityWarning)
        warnings.showwarning = show
        yield notices


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
