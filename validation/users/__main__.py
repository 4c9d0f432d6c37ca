"""`python -m validation.users`: simulate every data set as a user would, and compute the shipped errors."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cotenant.cli.main import main
from cotenant.cli.output import console

if TYPE_CHECKING:
    from validation.users.decisions import Decision


@click.command("users", short_help="Compare studies on simulated devices with real measurements.")
@click.option("--data", required=True, envvar="COTENANT_DATA", type=click.Path(path_type=Path), help="Measured data.")
@click.option("--write", metavar="FILE", type=click.Path(path_type=Path), help="Also write the page.")
@click.option("--errors", metavar="FILE", type=click.Path(path_type=Path), help="Also write the classes' errors.")
def command(*, data: Path, write: Path | None, errors: Path | None) -> int:
    """Run a study for every measured row, and judge each class."""
    from cotenant.prediction.trust import as_json
    from validation.users.classes import errors as shipped
    from validation.users.classes import judge
    from validation.users.collect import collect
    from validation.users.page import markdown

    talk = console(talk=True)
    rows = collect(data, talk.print)
    judged = judge(rows)
    for one in judged:
        talk.print(f"{one.kind}, {one.quantity}: {one.error.sentence}")
    if errors is not None:
        errors.write_text(as_json(shipped(judged)), encoding="utf-8")
    if write is not None:
        write.write_text(markdown(judged, rows, _decided(data, talk.print)), encoding="utf-8")
    return 0


def _decided(data: Path, seen: Callable[[str], None]) -> "list[Decision]":
    from cotenant.prediction import trust
    from validation.reading import AbsentData
    from validation.users.decisions import decisions

    trust.reread()
    try:
        return list(decisions(data))
    except AbsentData as problem:
        seen(f"decisions: {problem.message}")
        return []


if __name__ == "__main__":
    raise SystemExit(main(command=command, name="users"))
