"""`cotenant db`: measurements of all machines together."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cotenant.cli.options import on_cluster
from cotenant.cli.output import as_json, console, show_elements, show_json

if TYPE_CHECKING:
    from cotenant.reporting.elements import Element

EPILOG = """\b
Examples:  cotenant db add runs/variability/*           runs, also of other machines
           cotenant db add smi.csv longhorn.csv         files of other tools
           cotenant db add ~/runs --on ray              from all nodes of a cluster
           cotenant db gpus                             how GPUs differ, the slowest first
           cotenant db anomalies                        which is slow, since when, why
           cotenant db sensors "rails.log vdd_in" smi   two sensors of the same thing
           cotenant db report --out fleet.html

The database is a folder: --db DIR, else $COTENANT_DB, else runs/.database.
"""

in_database = click.option(
    "--db", metavar="DIR", type=click.Path(path_type=Path), help="The database's folder instead of the default."
)
of_work = click.option("--work", metavar="TEXT", help="Only work whose name contains this text.")


@click.group(
    "db",
    invoke_without_command=True,
    epilog=EPILOG,
)
@in_database
@as_json
@click.pass_context
def command(ctx: click.Context, *, db: Path | None, as_json: bool) -> None:
    """Collect the runs of every machine, and find out which GPU is slow, since when, and why.

    Without a subcommand, show what it contains.
    """
    ctx.obj = db
    if ctx.invoked_subcommand is not None:
        return
    from cotenant.api import db as database
    from cotenant.reporting.results import contents_elements

    _print(database.contents(db=db), as_json, contents_elements)


@command.command("add", short_help="Add runs, or files of other tools.")
@click.argument("paths", metavar="RUN|FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@in_database
@click.option("--skip-bad", is_flag=True, help="Skip unusable lines instead of refusing the file.")
@on_cluster
@as_json
@click.pass_obj
def add(
    above: Path | None,
    *,
    paths: tuple[Path, ...],
    db: Path | None,
    skip_bad: bool,
    on: str | None,
    insecure: bool,
    as_json: bool,
) -> None:
    """Add run folders, or files of nvidia-smi, dcgmi dmon, nvprof, tegrastats, or CSV with a row per run.

    All or nothing; sources already present are not added twice. With --on, all runs below a folder of every node.
    """
    from cotenant.api import db as database
    from cotenant.reporting.results import added_elements

    if on is not None:
        if len(paths) != 1:
            raise click.UsageError("With --on, name one folder: where the nodes keep their runs.")
        added = database.gather(paths[0], on=on, db=db or above, insecure=insecure)
    else:
        added = database.add(paths, db=db or above, skip_bad=skip_bad)
    _print(added, as_json, added_elements)
    tables = all(addition.source.kind == "table" for addition in added)
    following = "predict FILE --from db" if tables else "db anomalies"
    console(talk=True).print(f"\nnext: cotenant {following}", style="dim")


@command.command("gpus", short_help="Show how the GPUs differ, the slowest first.")
@of_work
@click.option("--all", "every", is_flag=True, help="Every GPU, not only the slowest of each kind of work.")
@in_database
@as_json
@click.pass_obj
def gpus(above: Path | None, *, work: str | None, every: bool, db: Path | None, as_json: bool) -> None:
    """Show how the GPUs differ: spread, its sources, and a line for each, the slowest first."""
    from cotenant.api import db as database
    from cotenant.reporting.results import gpus_elements

    _print(database.gpus(work, db=db or above), as_json, lambda found: gpus_elements(found, every=every))


@command.command("gpu")
@click.argument("gpu", metavar="UUID")
@in_database
@as_json
@click.pass_obj
def gpu(above: Path | None, *, gpu: str, db: Path | None, as_json: bool) -> None:
    """Show everything known about a GPU; part of its UUID is enough."""
    from cotenant.api import db as database
    from cotenant.reporting.results import gpu_elements

    _print(database.gpu(gpu, db=db or above), as_json, gpu_elements)


@command.command("sensors", short_help="List the sensors read, or relate one to another.")
@click.argument("words", metavar="[FINER OTHER]", nargs=-1)
@in_database
@as_json
@click.pass_obj
def sensors(above: Path | None, *, words: tuple[str, ...], db: Path | None, as_json: bool) -> None:
    """List the sensors read; given two, relate the second to the first, which is finer.

    FINER and OTHER are words that match only one line of the list, e.g. "GPU-8f3c power_instant_w" or
    "rails.log vdd_in".
    """
    from cotenant.api import db as database
    from cotenant.reporting.results import pair_elements, sensor_elements

    if not words:
        _print(database.sensors(db=db or above), as_json, sensor_elements)
        return
    if len(words) != 2:
        raise click.UsageError('Name two sensors, each in quotes: "GPU-8f3c power_instant_w" "GPU-8f3c power_w".')
    _print(database.compare_sensors(*words, db=db or above), as_json, pair_elements)


@command.command("trend", short_help="Show drift of the fleet, and steps of single GPUs.")
@of_work
@in_database
@as_json
@click.pass_obj
def trend(above: Path | None, *, work: str | None, db: Path | None, as_json: bool) -> None:
    """Show changes over time: drift of the fleet by day, steps of single GPUs."""
    from cotenant.api import db as database
    from cotenant.reporting.results import trend_elements

    _print(database.trend(work, db=db or above), as_json, trend_elements)


@command.command("anomalies", short_help="Show which GPU is slow, since when and why.")
@of_work
@in_database
@as_json
@click.pass_obj
def anomalies(above: Path | None, *, work: str | None, db: Path | None, as_json: bool) -> None:
    """Show which GPU is slow, since when and why; what changed; which sensor is unreliable."""
    from cotenant.api import db as database
    from cotenant.reporting.results import anomaly_elements

    _print(database.anomalies(work, db=db or above), as_json, anomaly_elements)


@command.command("report", short_help="Write all of it as one HTML file.")
@click.option("--out", metavar="FILE", required=True, type=click.Path(path_type=Path), help="The HTML file to write.")
@of_work
@in_database
@as_json
@click.pass_obj
def report(above: Path | None, *, out: Path, work: str | None, db: Path | None, as_json: bool) -> None:
    """Write figures, tables and anomalies as a self-contained HTML file."""
    from cotenant.api import db as database

    written = database.report(out, work, db=db or above)
    if as_json:
        show_json({"html": written})
    else:
        click.echo(written)


def _print(found: Any, as_json: bool, elements: "Callable[[Any], list[Element]]") -> None:
    if as_json:
        show_json(found)
    else:
        show_elements(elements(found))
