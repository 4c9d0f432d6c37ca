"""`cotenant report`: results as an HTML file, Markdown and figures."""

from pathlib import Path
from typing import Literal

import click

from cotenant.cli.output import as_json, show_json

EPILOG = """\b
Examples:  cotenant report RUN                          writes RUN/report.html
           cotenant report RUN RUN --out both.html      several runs side by side
           cotenant report RUN --markdown report.md --figures figures/
           cotenant report RUN --figures figures/ --for paper
"""


@click.command("report", epilog=EPILOG)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Default: RUN/report.html; ./report.html for several.",
)
@click.option(
    "--markdown", metavar="FILE", type=click.Path(path_type=Path), help="Also write Markdown, for a pull request."
)
@click.option(
    "--figures", metavar="DIR", type=click.Path(path_type=Path), help="Also write every figure as SVG and PNG."
)
@click.option(
    "--for",
    "figures_for",
    type=click.Choice(["screen", "paper"]),
    default="screen",
    help="For --figures: `paper` writes SVG and PDF in column width, and the data as CSV.",
)
@as_json
def command(
    *,
    runs: tuple[Path, ...],
    out: Path | None,
    markdown: Path | None,
    figures: Path | None,
    figures_for: Literal["screen", "paper"],
    as_json: bool,
) -> None:
    """Write the results of any number of run folders as a self-contained HTML file.

    Prints the path of each file written.
    """
    from cotenant.api.report import report

    written = report(runs, out=out, markdown=markdown, figures=figures, figures_for=figures_for)
    if as_json:
        show_json(written)
    else:
        for path in (written.html, written.markdown, *written.figures):
            if path is not None:
                click.echo(path)
