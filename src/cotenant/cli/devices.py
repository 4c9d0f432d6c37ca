"""`cotenant devices`: devices to measure on, and the ways to share each."""

import click

from cotenant.cli.options import on_cluster
from cotenant.cli.output import as_json, show, show_json


@click.command("devices")
@on_cluster
@as_json
def command(*, on: str | None, insecure: bool, as_json: bool) -> None:
    """List the devices of this machine, or of a cluster, and the ways to share each."""
    from cotenant.api.lists import list_devices
    from cotenant.reporting.terminal import device_list

    found = list_devices(on=on, insecure=insecure)
    if as_json:
        show_json(found)
    else:
        show(device_list(found))
