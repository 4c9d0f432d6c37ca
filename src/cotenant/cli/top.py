"""`cotenant top`: the state of a running server, refreshed."""

import click

from cotenant.cli.output import as_json, console, show, show_json

EPILOG = """\b
Examples:  cotenant top
           cotenant top http://127.0.0.1:9000 --once
           COTENANT_KEY=ct-... cotenant top https://gpu7:8700
"""


@click.command("top", epilog=EPILOG)
@click.argument("address", metavar="[URL]", default="http://127.0.0.1:8700")
@click.option("--every", metavar="SECONDS", type=click.FloatRange(min=0.2), default=1.0, show_default=True,
              help="Seconds between updates.")  # fmt: skip
@click.option("--once", is_flag=True, help="Print once; also the default when the output isn't a terminal.")
@as_json
def command(*, address: str, every: float, once: bool, as_json: bool) -> None:
    """Show each tenant of the server at URL: rate, attainment, latency, share, refusals. Ctrl-C ends it."""
    import os
    import time

    from cotenant.api.serve import top
    from cotenant.reporting.terminal import status_parts

    key = os.environ.get("COTENANT_KEY")
    status = top(address, key=key)
    if as_json:
        show_json(status)
        return
    screen = console()
    if once or not screen.is_terminal:
        show(*status_parts(status))
        return

    from rich.console import Group
    from rich.live import Live

    with Live(Group(*status_parts(status)), console=screen, screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(every)
            live.update(Group(*status_parts(top(address, key=key))), refresh=True)
