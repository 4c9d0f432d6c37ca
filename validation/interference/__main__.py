"""`python -m validation.interference`: compare interference predictions with measurements."""

from pathlib import Path

import click

from cotenant.cli.main import main
from cotenant.cli.output import Exit, console


@click.command("validate-interference", short_help="Compare predictions with real measurements.")
@click.option(
    "--data",
    required=True,
    envvar="COTENANT_DATA",
    show_envvar=True,
    type=click.Path(path_type=Path),
    help="Folder with the measured data.",
)
@click.option("--write", metavar="FILE", type=click.Path(path_type=Path), help="Write the page here instead of stdout.")
def command(*, data: Path, write: Path | None) -> int:
    """Compare predictions of interference with real measurements. Exit code 3: a target is missed."""
    from validation.interference.gavel_questions import gavel_results
    from validation.interference.page import markdown
    from validation.interference.parvagpu_groups import parvagpu_result

    talk = console(talk=True)
    results = []
    for result in gavel_results(data):
        talk.print(f"{result.data_set}: {result.what}")
        results.append(result)
    results.append(parvagpu_result(data))
    page = markdown(results)
    if write is None:
        click.echo(page, nl=False)
    else:
        write.write_text(page, encoding="utf-8")
        talk.print(f"Written: {write}")
    return Exit.BREACH if any(result.missed for result in results) else Exit.OK


if __name__ == "__main__":
    raise SystemExit(main(command=command, name="validation.interference"))
