"""`cotenant compare`: is it faster, slower or the same as before?"""

from typing import TYPE_CHECKING

import click

from cotenant.cli.output import Exit, as_json, console, show, show_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from cotenant.api.handles import Comparison

EPILOG = """\b
Examples:  cotenant compare RUN --save main              name a run, to compare with it later
           cotenant compare main RUN                     before, now
           cotenant compare main RUN --markdown          for a pull request
           cotenant compare RUN RUN RUN ...              when did it change?
           cotenant compare RUN_ON_T4 RUN_ON_L4          one study on several devices, side by side
           cotenant compare plan.yaml RUN                which promises of a plan were kept

`slower` is shown to be slower by more than the margin, `same` is shown to be within it, and everything
else is ambiguous. The chance of a single false `slower` in the table is at most 5 %. If most trials of
a run are not valid, no verdict is given. The exit code is 3 if something is slower and the clock does
not explain it, and 2 if the verdict is withheld; for a plan 3 if an objective was missed, and 2 if some
can't be told yet.
"""


def margin_of(ctx: click.Context, param: click.Parameter, text: str) -> float:
    """`3%` or `0.03` as a number."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = float("nan")
    if not 0.001 <= share <= 1:
        raise click.BadParameter(f"{text!r} is not a margin; write 3% or 0.03, at least 0.1%", ctx, param)
    return share


@click.command("compare", epilog=EPILOG)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("--save", "name", metavar="NAME", help="Only save RUN under this name (in runs/.baselines).")
@click.option("--margin", metavar="SHARE", callback=margin_of, default="3%", show_default=True,
              help="The smallest change that matters.")  # fmt: skip
@click.option("--explain", is_flag=True, help="Explain the verdict of every row.")
@click.option("--all", "everything", is_flag=True, help="Every row, not only those that fit one screen.")
@click.option("--markdown", is_flag=True, help="Print Markdown, for a pull request.")
@as_json
def command(
    *,
    runs: tuple[str, ...],
    name: str | None,
    margin: float,
    explain: bool,
    everything: bool,
    markdown: bool,
    as_json: bool,
) -> int:
    """Compare RUNs: two (before, now), or a history of more. A RUN is a run folder or a saved name, or first a plan."""
    from cotenant.api.compare import compare, save_baseline

    if name is not None:
        if len(runs) != 1:
            raise click.UsageError("--save takes exactly one RUN.")
        file = save_baseline(runs[0], name)
        console(talk=True).print(f"saved {name} in {file}", soft_wrap=True)
        return Exit.OK
    if len(runs) < 2:
        raise click.UsageError("Name two runs, before and now; or save one with --save NAME.")
    comparison = compare(runs, margin=margin)
    if as_json:
        show_json(comparison)
    elif markdown:
        click.echo(comparison.markdown(explain=explain))
    else:
        show(*_parts(comparison, explain=explain, everything=everything))
    if comparison.regression:
        return Exit.BREACH
    return Exit.NOT_READY if comparison.withheld else Exit.OK


def _parts(comparison: "Comparison", *, explain: bool, everything: bool) -> "Sequence[RenderableType]":
    from cotenant.analyse.comparison import History, PairComparison
    from cotenant.analyse.result import SideBySide
    from cotenant.reporting.elements import to_terminal
    from cotenant.reporting.results import compared_elements, judged_elements

    match comparison.details:
        case PairComparison() as pair:
            return to_terminal(compared_elements(pair, explain=explain, everything=everything))
        case History() | SideBySide() as several:
            return to_terminal(compared_elements(several))
        case judged:
            return to_terminal(judged_elements(judged.rows, simulated=judged.simulated))
