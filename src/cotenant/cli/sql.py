"""`cotenant sql`: any question to the records."""

from pathlib import Path

import click

from cotenant.cli.output import as_json, show, show_json

EPILOG = """\b
Examples:  cotenant sql "select mix, sharing, verdict, count(*) from trials group by all" runs/quick-*
           cotenant sql "select tenant, median(done_ns - intended_ns) / 1e6 as p50_ms
                         from requests where in_window and ok group by tenant" RUN

The tables are trials, tenants, requests, stages, samples and kernels; they can be read and not changed.
"""


@click.command("sql", epilog=EPILOG)
@click.argument("query")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@as_json
def command(*, query: str, runs: tuple[Path, ...], as_json: bool) -> None:
    """Put QUERY to the records of one run folder or several together."""
    from cotenant.api.sql import sql
    from cotenant.reporting.terminal.row_by_row import Answer

    table = sql(query, runs)
    if as_json:
        show_json([dict(zip(table.columns, row, strict=True)) for row in table.rows])
    else:
        show(Answer(table.columns, table.rows))
