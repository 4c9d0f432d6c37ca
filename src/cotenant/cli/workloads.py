"""`cotenant workloads`: what can be run."""

import click

from cotenant.cli.output import as_json, console, show, show_json


@click.command("workloads")
@click.argument("words", metavar="[FILTER]", required=False)
@as_json
def command(*, words: str | None, as_json: bool) -> None:
    """List the workloads of the catalogue, or those whose name, family or description contains FILTER."""
    from cotenant.report.lists import workload_list
    from cotenant.verbs.lists import workloads

    console(talk=True).print("describing the workloads (a moment the first time, then remembered)", style="dim")
    found = workloads(words)
    if as_json:
        show_json(found)
    else:
        show(workload_list(found))
