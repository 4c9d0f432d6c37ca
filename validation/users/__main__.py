"""`python -m validation.users`: simulate every data set as a user would, and compute the shipped errors."""

import json
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
@click.option("--errors", metavar="FILE", type=click.Path(path_type=Path), help="Also write what ships.")
@click.option("--before", metavar="FILE", type=click.Path(path_type=Path), help="Earlier half-widths by class, JSON.")
def command(*, data: Path, write: Path | None, errors: Path | None, before: Path | None) -> int:
    """Run a study for every measured row, and judge each class."""
    from cotenant.prediction.trust import as_json
    from validation.users.classes import judge
    from validation.users.collect import collect
    from validation.users.page import markdown

    talk = console(talk=True)
    rows = collect(data, talk.print)
    judgement = judge(rows)
    for judged in judgement.judged:
        held = f"{judged.coverage * 100:.0f} % held" if judged.coverage == judged.coverage else "not judged"
        talk.print(f"{judged.kind}, {judged.quantity}: x{judged.low:.2f} to x{judged.high:.2f}, {held}")
    if errors is not None:
        errors.write_text(as_json(judgement.validated), encoding="utf-8")
    if write is not None:
        earlier = {} if before is None else _earlier(before)
        write.write_text(markdown(judgement, rows, _decided(data, talk.print), earlier), encoding="utf-8")
    return 0


def _earlier(file: Path) -> dict[tuple[str, str], float]:
    """Half-widths by class and quantity."""
    rows = json.loads(file.read_text(encoding="utf-8"))
    return {(row["class"], row["quantity"]): row["half_width"] for row in rows}


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
