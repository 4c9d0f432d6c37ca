"""Output: data to stdout, messages to stderr."""

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TextIO

import click

from cotenant.errors import DamagedTrials, IntegrityWarning

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from rich.console import Console, RenderableType

    from cotenant.analyse.result import Result
    from cotenant.reporting.elements import Element


# --- exit codes, so that scripts need not parse text


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


NARROWEST = 20
"""Columns. Shells without a terminal and some containers report 0, and a table of that width is empty."""
USUAL = 80

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def console(*, talk: bool = False) -> "Console":
    """The terminal or a substitute. Markup is off: names are text."""
    from rich.console import Console

    stream = sys.stderr if talk else sys.stdout
    made = Console(file=stream, markup=False, highlight=False, emoji=False, soft_wrap=False)
    if made.width < NARROWEST:
        made.width = USUAL
    return made


def show(*parts: "RenderableType") -> None:
    """Print data for people to stdout, with a blank line between the parts."""
    out = console()
    for number, part in enumerate(parts):
        if number:
            out.print()
        out.print(part)


def show_elements(elements: "Iterable[Element]") -> None:
    """Print what a result says to stdout."""
    from cotenant.reporting.elements import to_terminal

    show(*to_terminal(elements))


def show_json(data: Any) -> None:
    """Print data for programs to stdout."""
    from cotenant.analyse.tabular import plain

    click.echo(json.dumps(plain(data), indent=2, ensure_ascii=False, allow_nan=False))


# --- how `run` and `show` print results

QUESTION = '"select trial, mix, sharing, verdict, reasons from trials"'
"""A first query over the records, quoted for a shell."""


def show_result(result: "Result", *, everything: bool) -> None:
    """Print the answer that fits a screen, or everything, to stdout."""
    from cotenant.reporting.results import answer_screen, measured_elements

    show_elements(measured_elements(result) if everything else answer_screen(result))


def show_next(folders: "Sequence[Path]") -> None:
    """Suggest next commands, on stderr."""
    import shlex

    from rich.text import Text

    where = " ".join(shlex.quote(str(folder)) for folder in folders)
    first = shlex.quote(str(folders[0]))
    talk = Text(
        f"\nagain: cotenant show {where}\npage:  cotenant report {where}\nwhy:   cotenant explain {first}\n"
        f"more:  cotenant sql {QUESTION} {where}",
        "dim",
    )
    console(talk=True).print(talk, soft_wrap=True)


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
            from cotenant.text import literal

            notices.said.add(str(message))
            click.echo(f"{click.style('warning:', fg='yellow')} {literal(str(message))}", file=sys.stderr)

    with warnings.catch_warnings():
        usual = warnings.showwarning
        if not debug:
            warnings.simplefilter("ignore")
        warnings.simplefilter("always", IntegrityWarning)
        warnings.showwarning = show
        yield notices
