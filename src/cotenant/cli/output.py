"""Where text goes: data to stdout, talk to stderr."""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def console(*, talk: bool = False) -> "Console":
    """The terminal, or what stands in for it. Markup is off: names are text."""
    from rich.console import Console

    stream = sys.stderr if talk else sys.stdout
    return Console(file=stream, markup=False, highlight=False, emoji=False, soft_wrap=False)


def show(*parts: "RenderableType") -> None:
    """Data for a person, on stdout, with a blank line between the parts."""
    out = console()
    for number, part in enumerate(parts):
        if number:
            out.print()
        out.print(part)


def show_json(data: Any) -> None:
    """Data for a program, on stdout."""
    click.echo(json.dumps(plain(data), indent=2, ensure_ascii=False, allow_nan=False))


def plain(data: Any) -> Any:  # noqa: PLR0911 - one return per case
    """Data as JSON knows it. JSON has no infinity and no NaN: they become null."""
    match data:
        case None | bool() | int() | str():
            return data
        case float():
            return data if math.isfinite(data) else None
        case Mapping():
            return {str(key): plain(value) for key, value in data.items()}
        case Sequence():
            return [plain(value) for value in data]
    if hasattr(data, "to_json"):
        return plain(data.to_json())
    if is_dataclass(data):
        return {field.name: plain(getattr(data, field.name)) for field in fields(data)}
    if hasattr(data, "tolist"):
        return plain(data.tolist())  # numpy
    return str(data)  # paths, dates, decimals
