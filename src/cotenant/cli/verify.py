"""`cotenant verify`: are all runs unchanged since they were written?"""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cotenant.cli.output import Exit, as_json, console, show_json

if TYPE_CHECKING:
    from cotenant.store.verifying import Verified

EPILOG = """\b
Examples:  cotenant verify RUN
           cotenant verify runs/quick/* --json

Every committed trial has a seal: the SHA-256 of its files and the rows of its tables. The exit code
is 0 if all runs are intact, 1 if any is damaged, 2 if any was written without seals or has a gap: requests
that could not be written when they were served.

A seal detects accidents; it is not a signature. Whoever can write to a folder can write a new seal. To detect
that, keep the line of --digest elsewhere and compare it later: it changes with any file of the run.
"""


@click.command("verify", epilog=EPILOG)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--digest", is_flag=True, help="Print a SHA-256 over all files of each run, to keep elsewhere, and exit.")
@as_json
def command(*, runs: tuple[Path, ...], digest: bool, as_json: bool) -> int:
    """Check that every file of the run folders is unchanged, and name what is damaged or gone."""
    if digest:
        from cotenant.api.records import run_digests

        digests = {str(path): value for path, value in run_digests(runs).items()}
        if as_json:
            show_json(digests)
        else:
            for path, value in digests.items():
                console().print(f"{value}  {path}", soft_wrap=True)
        return Exit.OK
    from cotenant.analyse.tabular import plain
    from cotenant.api.records import verify

    found = verify(runs)
    if as_json:
        show_json([{**plain(verified), "state": verified.state} for verified in found])
    else:
        for verified in found:
            console().print(_words(verified), soft_wrap=True)
    states = {verified.state for verified in found}
    return Exit.ERROR if "damaged" in states else Exit.NOT_READY if states - {"whole"} else Exit.OK


def _words(verified: "Verified") -> str:
    from cotenant.text import amount, literal

    lines = [f"{verified.run}: {verified.state}, {amount(verified.trials, 'trial')}"]
    if verified.unsealed:
        lines.append(f"  {verified.unsealed} were written without a seal: damage to them would go unnoticed")
    lines += [f"  {sentence}" for sentence in verified.damaged]
    if verified.incomplete:
        lines.append(f"  {verified.incomplete}")
    if verified.missing:
        lines.append(f"  {verified.missing} trials of the complete run are missing")
    if verified.state == "damaged" and verified.trials:
        lines.append(f"  measure them again: cotenant run --resume {shlex.quote(str(verified.run))}")
    return "\n".join(map(literal, lines))
