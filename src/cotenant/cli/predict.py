"""`cotenant predict`: mixes that were not measured."""

from pathlib import Path
from typing import cast

import click

from cotenant.cli.output import as_json, console, show, show_json

EPILOG = """\b
Examples:  cotenant run study.yaml --set 'mixes=[solo]'
           cotenant predict study.yaml --from RUN                 every mix, from solos alone
           cotenant predict study.yaml --from RUN --next 5        and what to measure next
           cotenant predict study.yaml --from RUN --next 5 --next-for pairing
           cotenant predict study.yaml --from RUN --from OTHER    from several runs
           cotenant predict study.yaml --from db                  from all runs on this kind of device
           cotenant predict study.yaml --from table.csv           from what others measured, by tenants' names
           cotenant predict --from table.csv --device sim:t4      every pair of a table's tenants
           cotenant predict study.yaml --mix bert+resnet --device sim:a100-sxm4-40gb

Every number has a 90 % interval and its basis: measured, the number of measured mixes behind it, or the prior only.
"""


@click.command("predict", epilog=EPILOG)
@click.argument("study", metavar="[STUDY]", required=False)
@click.option("--device", metavar="NAME", help="Overrides the study's device.")
@click.option(
    "--from",
    "runs",
    metavar="RUN",
    multiple=True,
    help="Learn from this run, from a CSV table of others, or from `db`.",
)
@click.option("--mix", metavar="A+B", help="Only this mix of the study's tenants.")
@click.option("--next", "next_mixes", metavar="N", type=click.IntRange(min=0), default=0,
              help="Also suggest N mixes worth measuring.")  # fmt: skip
@click.option("--next-for", type=click.Choice(["all", "pairing"]), default="all", show_default=True,
              help="For --next: mixes that tell most about all, or that decide which tenants to pair.")  # fmt: skip
@click.option("--db", metavar="DIR", type=click.Path(path_type=Path), help="The database's folder, for `--from db`.")
@click.option("--page", metavar="FILE", type=click.Path(path_type=Path),
              help="Also write a page with a heat map: measured solid, predicted hatched.")  # fmt: skip
@click.option("--all", "everything", is_flag=True, help="Show every mix.")
@as_json
def command(
    *,
    study: str | None,
    device: str | None,
    runs: tuple[str, ...],
    mix: str | None,
    next_mixes: int,
    next_for: str,
    db: Path | None,
    page: Path | None,
    everything: bool,
    as_json: bool,
) -> None:
    """Predict how the mixes of a STUDY (a file or a built-in study) would interfere, from runs."""
    from cotenant.api.predict import predict
    from cotenant.planning.inputs import NextFor
    from cotenant.reporting.elements import to_terminal
    from cotenant.reporting.results import prediction_elements

    found = predict(
        study,
        device=device,
        runs=runs,
        mix=mix,
        next_mixes=next_mixes,
        next_for=cast("NextFor", next_for),
        db=db,
        say=console(talk=True).print,
    )
    if page is not None:
        found.page(page)
        console(talk=True).print(f"wrote {page}")
    if as_json:
        show_json(found)
    else:
        everything = everything or mix is not None
        show(*to_terminal(prediction_elements(found, everything=everything, study=study or "STUDY", device=device)))
