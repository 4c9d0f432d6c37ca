"""`cotenant sql`: SQL queries over the records."""

from pathlib import Path

import click

from cotenant.cli.bounds import bounded
from cotenant.cli.output import as_json, show, show_json

MEMORY_BYTES = 1 << 30
"""On top of what the process uses: the database limits its own memory, but not that of every expression."""
GRACE_S = 10.0
"""Some expressions don't react to an interrupt."""
EPILOG = """\b
Examples:  cotenant sql "select mix, sharing, verdict, count(*) from trials group by all" runs/quick-*
           cotenant sql "select tenant, median(done_ns - intended_ns) / 1e6 as p50_ms
                         from requests where in_window and ok group by tenant" RUN

The tables are trials, tenants, requests, stages, samples and kernels, all read-only.
"""


@click.command("sql", epilog=EPILOG)
@click.argument("query")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--timeout", metavar="SECONDS", type=click.FloatRange(min=0.1), default=60.0, show_default=True,
              help="Stop the query after this time.")  # fmt: skip
@as_json
def command(*, query: str, runs: tuple[Path, ...], timeout: float, as_json: bool) -> None:
    """Run QUERY over the records of one or several run folders."""
    from cotenant.api.sql import sql
    from cotenant.reporting.terminal.row_by_row import QueryAnswer

    with bounded(memory_bytes=MEMORY_BYTES, seconds=timeout + GRACE_S):
        table = sql(query, runs, limit_s=timeout)
    if as_json:
        show_json([dict(zip(table.columns, row, strict=True)) for row in table.rows])
    else:
        show(QueryAnswer(table.columns, table.rows))
