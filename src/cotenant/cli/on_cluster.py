"""`--on ray[://host:port]`: the same for every verb that can use a cluster."""

from collections.abc import Callable
from typing import Any

import click


def on_cluster(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb `--on` and `--insecure`."""
    command = click.option(
        "--insecure", is_flag=True, help="With --on: accept a cluster that asks nobody for a token."
    )(command)
    return click.option("--on", metavar="ray[://HOST:PORT]", help="On the devices of a Ray cluster.")(command)
