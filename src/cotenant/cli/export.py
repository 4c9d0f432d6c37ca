"""`cotenant export`: a table of the records as a file."""

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

if TYPE_CHECKING:
    from cotenant.store.export import Format

FORMATS = ("csv", "json", "parquet")
EPILOG = """\b
Examples:  cotenant export requests RUN --to requests.parquet
           cotenant export trials RUN RUN --json
           cotenant export results RUN --to results.csv

The tables are trials, tenants, requests, stages, samples and kernels; `results` has a row for each tenant of each mix,
with its slowdown, its interval and what was decided.
"""


@click.command("export", epilog=EPILOG)
@click.argument("table")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--to", "destination", metavar="FILE", default="-", help="Output file; - is the standard output (default)."
)
@click.option("--format", "form", type=click.Choice(FORMATS), help="Default: by the file's suffix; CSV for -.")
@click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
def command(*, table: str, runs: tuple[Path, ...], destination: str, form: str | None, as_json: bool) -> None:
    """Write TABLE of any number of run folders as CSV, JSON or Parquet."""
    from cotenant.api.records import export

    if as_json and form not in {None, "json"}:
        raise click.UsageError(f"--json and --format {form} contradict each other.")
    chosen = cast("Format | None", "json" if as_json else form)
    export(runs, table, "-" if destination == "-" else Path(destination), chosen)
