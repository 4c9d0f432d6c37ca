"""`cotenant studies`: what can be measured without writing anything."""

import click

from cotenant.cli.output import as_json, show, show_json


@click.command("studies")
@as_json
def command(*, as_json: bool) -> None:
    """List the built-in studies."""
    from cotenant.report.lists import study_list
    from cotenant.verbs.lists import studies

    found = studies()
    if as_json:
        show_json(found)
    else:
        show(study_list(found))
