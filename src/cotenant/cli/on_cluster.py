"""`--on ray[://host:port]`, the same for every verb that can use a cluster."""

from collections.abc import Callable
from typing import Any

import click


def on_cluster(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--on` and `--insecure` to a verb."""
    command = click.option(
        "--insecure", is_flag=True, help="With --on: accept a cluster without token authentication."
    )(command)
    return click.option("--on", metavar="ray[://HOST:PORT]", help="Use the devices of a Ray cluster.")(command)
