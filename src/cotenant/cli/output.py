"""Output: data to stdout, messages to stderr."""

import json
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

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


def show_json(data: Any) -> None:
    """Print data for programs to stdout."""
    from cotenant.analyse.tabular import plain

    click.echo(json.dumps(plain(data), indent=2, ensure_ascii=False, allow_nan=False))
