"""Warnings on the command line: ours as one sentence each; those of libraries are hidden."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import click

from cotenant.errors import DamagedTrials, IntegrityWarning


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
