"""`cotenant show`: what came out of one run or several."""

from pathlib import Path

import click

from cotenant.cli.output import as_json, plain, show_json
from cotenant.cli.result import show_result


@click.command("show")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@as_json
def command(*, runs: tuple[Path, ...], as_json: bool) -> None:
    """Show the result of one run folder or several together."""
    from cotenant.verbs.show import show, show_device, show_sweeps

    summary = show(runs)
    if as_json:
        show_json({**plain(summary), "device_use": show_device(runs), "sweeps": show_sweeps(runs)})
    else:
        show_result(summary, runs)
