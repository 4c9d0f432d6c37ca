"""`cotenant view`: a folder of runs in a browser."""

from pathlib import Path

import click

from cotenant.cli.output import as_json, console, show_json

EPILOG = """\b
Examples:  cotenant view
           cotenant view results/ --port 9000
           ssh -L 8765:127.0.0.1:8765 HOST      then open the same address here to see the runs there

Only this machine can connect, and nothing is ever written. Ctrl-C ends it.
"""
BEHIND = 10


@click.command("view", epilog=EPILOG)
@click.argument("directory", metavar="[DIR]", default="runs", type=click.Path(path_type=Path))
@click.option("--port", metavar="N", type=click.IntRange(0, 65535), default=8765, show_default=True,
              help="Port on 127.0.0.1; 0 picks any free port.")  # fmt: skip
@as_json
def command(*, directory: Path, port: int, as_json: bool) -> None:
    """Show the runs in DIR (default: runs) in a browser: list, filter, compare, reports, live progress."""
    import os

    from cotenant.api.view import view

    def ready(url: str) -> None:
        # The address is data, for scripts that wait for it.
        if as_json:
            show_json({"url": url, "directory": directory.resolve()})
        else:
            click.echo(url)
        console(talk=True).print(f"Open it in a browser: the runs in {directory}. Ctrl-C ends it.", soft_wrap=True)

    os.nice(BEHIND)  # give way to runs being measured on this machine
    view(directory, port=port, ready=ready)
