"""`python -m validation`: compare the simulation with measurements."""

from pathlib import Path

import click

from cotenant.cli.main import main
from cotenant.cli.output import Exit, as_json, console, show, show_json


@click.command("validate", short_help="Compare the simulation with real measurements.")
@click.option(
    "--data",
    required=True,
    envvar="COTENANT_DATA",
    show_envvar=True,
    type=click.Path(path_type=Path),
    help="Folder with the measured data.",
)
@click.option("--only", metavar="NAME", multiple=True, help="Only this data set; may be repeated.")
@click.option("--engines", is_flag=True, help="Language-model engines instead of the parts of the simulation.")
@click.option("--write", metavar="FILE", type=click.Path(path_type=Path), help="Also write a page with figures.")
@as_json
def command(*, data: Path, only: tuple[str, ...], engines: bool, write: Path | None, as_json: bool) -> int:
    """Compare the simulation with real measurements, by data set.

    Errors are taken over held-out rows, beside those of trivial baselines. Data sets missing from the folder are
    reported and skipped. Exit code 1: a file can't be used; 3: a target is missed.
    """
    from cotenant.text import literal
    from validation.tables import progress, summary
    from validation.validate import validate

    talk = console(talk=True)
    validation = validate(
        data,
        only,
        engines=engines,
        write=write,
        seen=lambda result: talk.print(literal(progress(result))),
    )
    if as_json:
        show_json(validation.to_json())
    else:
        show(summary(validation.results, validation.skipped))
    if write is not None:
        talk.print(f"Written: {write}")
    if validation.damaged:
        return Exit.ERROR
    return Exit.BREACH if validation.missed else Exit.OK


if __name__ == "__main__":
    raise SystemExit(main(command=command, name="validation"))
