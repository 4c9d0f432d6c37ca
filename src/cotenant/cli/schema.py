"""`cotenant schema`: the JSON Schema of study files, for editors."""

import click

from cotenant.cli.output import show_json


@click.command("schema")
@click.option("--json", "as_json", is_flag=True, help="No effect: the output is always JSON.")
def command(*, as_json: bool) -> None:  # noqa: ARG001 - accepted so that --json works everywhere
    """Print the JSON Schema of study files, for completion and checks in an editor."""
    from cotenant.api.lists import schema

    show_json(schema())
