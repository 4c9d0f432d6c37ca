"""Quantities with units on the command line: `4GB`, `512MiB`, `2kW`, `10min`."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import click

_WATTS = {"": 1, "w": 1, "kw": 10**3, "mw": 10**6}
_PERCENT = {"%": 1}
_FORM = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z%]*)")


def memory(text: str) -> int:
    """Bytes from `4GB` or `512MiB`; a click type."""
    from cotenant.tenancy.values import read_bytes

    try:
        return read_bytes(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a size of memory; write e.g. 4GB or 512MiB") from None


def power(text: str) -> float:
    """Watts from `2kW` or `1500W`; a click type."""
    return _quantity(text, _WATTS, "power", "2kW or 1500W")


def percent(text: str) -> float:
    """A share from `10%`; a click type."""
    return _quantity(text, _PERCENT, "width", "10%") / 100


def duration(text: str) -> float:
    """Seconds from `10min`, written as in a study; a click type."""
    from cotenant.tenancy.values import read_duration

    try:
        return read_duration(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a time; write e.g. 90s, 10min or 2h") from None


def _quantity(text: str, units: Mapping[str, int], what: str, examples: str) -> float:
    match = _FORM.fullmatch(text.strip().lower())
    if match is None or match[2] not in units or float(match[1]) == 0:
        raise click.BadParameter(f"{text!r} is not a {what}; write e.g. {examples}")
    return float(match[1]) * units[match[2]]


# --- `--on ray[://host:port]`, the same for every verb that can use a cluster


def on_cluster(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--on` and `--insecure` to a verb."""
    command = click.option(
        "--insecure", is_flag=True, help="With --on: accept a cluster without token authentication."
    )(command)
    return click.option("--on", metavar="ray[://HOST:PORT]", help="Use the devices of a Ray cluster.")(command)
