"""`cotenant plan`: who runs where, beside whom, at which clock."""

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from cotenant.cli.output import as_json, console, show, show_json
from cotenant.cli.sizes import power

if TYPE_CHECKING:
    from cotenant.planning.assignment import Objective

EPILOG = """\b
Examples:  cotenant db add sgemm.csv
           cotenant plan jobs.yaml
           cotenant plan jobs.yaml --objective energy --power-budget 2kW
           cotenant plan --compare --work sgemm

\b
jobs.yaml: - {name: train, class: bert, gpus: 4, time: 2h}
           - {name: embed, core_share: 0.3, activity: 0.5, time: 30min, share: true}

GPUs are those of the database (`cotenant db`). Times and energies are predictions from measured profiles.
"""


@click.command("plan", epilog=EPILOG)
@click.argument("jobs", required=False, type=click.Path(path_type=Path))
@click.option("--objective", type=click.Choice(["time", "energy", "fairness"]), default="time", show_default=True,
              help="What counts.")  # fmt: skip
@click.option("--power-budget", "power_budget_w", metavar="POWER", type=power, help="All GPUs together, e.g. 2kW.")
@click.option("--compare", "comparing", is_flag=True, help="Replay drawn jobs under every policy instead.")
@click.option("--draws", type=click.IntRange(min=2), default=20, show_default=True, help="For --compare.")
@click.option("--drawn-jobs", "count", type=click.IntRange(min=1), default=2000, show_default=True,
              help="For --compare: jobs per draw.")  # fmt: skip
@click.option("--load", type=click.FloatRange(min=0, min_open=True), default=0.9, show_default=True,
              help="For --compare: GPU time asked for over GPU time there is.")  # fmt: skip
@click.option("--work", metavar="TEXT", help="The work in the database that describes the GPUs.")
@click.option("--db", metavar="DIR", type=click.Path(path_type=Path), help="The database's folder.")
@as_json
def command(
    *,
    jobs: Path | None,
    objective: str,
    power_budget_w: float | None,
    comparing: bool,
    draws: int,
    count: int,
    load: float,
    work: str | None,
    db: Path | None,
    as_json: bool,
) -> None:
    """Place the JOBS of a YAML file on the GPUs that were measured, or compare ways of placing them."""
    if comparing == (jobs is not None):
        raise click.UsageError("Name a file of jobs, or --compare.")

    from cotenant.api.plan import compare_policies, plan
    from cotenant.reporting.terminal.plan import comparison_parts, plan_tables

    if jobs is not None:
        chosen = cast("Objective", objective)
        found = plan(jobs, objective=chosen, power_budget_w=power_budget_w, work=work, db=db)
        if as_json:
            show_json(found)
        else:
            show(*plan_tables(found))
        return
    talk = console(talk=True)
    compared = compare_policies(
        work=work, db=db, jobs=count, draws=draws, load=load, told=lambda done: talk.print(f"draw {done} of {draws}")
    )
    if as_json:
        show_json(compared)
    else:
        show(*comparison_parts(compared))
