"""`cotenant studies`: the built-in studies."""

import click

from cotenant.cli.output import as_json, show, show_json


@click.command("studies")
@as_json
def command(*, as_json: bool) -> None:
    """List the built-in studies."""
    from cotenant.api.lists import list_studies
    from cotenant.reporting.terminal import study_list

    found = list_studies()
    if as_json:
        show_json(found)
    else:
        show(study_list(found))
