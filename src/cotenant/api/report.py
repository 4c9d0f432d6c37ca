"""`report`: results of runs as a self-contained page."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cotenant.paths import AnyPath, Runs, run_paths


@dataclass(frozen=True, slots=True)
class Written:
    """The files of a report."""

    html: Path
    markdown: Path | None
    figures: tuple[Path, ...]


def report(
    runs: Runs,
    *,
    out: AnyPath | None = None,
    markdown: AnyPath | None = None,
    figures: AnyPath | None = None,
    figures_for: Literal["screen", "paper"] = "screen",
) -> Written:
    """Write a self-contained HTML file about any number of runs, optionally with Markdown and figures.

    Args:
        runs: A run folder, or several.
        out: The HTML file; by default `report.html` in the run's folder, or in the working directory for several.
        markdown: Also write tables and sentences as Markdown, for a pull request.
        figures: Also write every figure as SVG and PNG into this folder.
        figures_for: `paper` writes SVG and PDF as wide as a column, in colours that print, with the data as CSV.

    Raises:
        RunFolderError: A folder is not a run, is damaged, or is of a newer schema; or a file can't be written.
        CotenantError: Figures are requested and the renderer is not installed.
    """
    from cotenant.errors import WatchedRuns
    from cotenant.reporting.elements import drawings as drawings_of
    from cotenant.reporting.figures import Figure, export_figures, gather
    from cotenant.reporting.figures import figures as every_figure
    from cotenant.reporting.html import run_page
    from cotenant.reporting.results import measured_markdown, watched_elements, watched_markdown, watched_page
    from cotenant.store.folder import write_whole
    from cotenant.store.watched import read_watched

    out = None if out is None else Path(out)
    markdown = None if markdown is None else Path(markdown)
    figures = None if figures is None else Path(figures)
    paths = run_paths(runs)
    try:
        material = gather(paths)
    except WatchedRuns:
        watched = read_watched(paths)
        target = out or (paths[0] / "report.html" if len(paths) == 1 else Path("report.html"))
        write_whole(target, watched_page(watched))
        if markdown is not None:
            write_whole(markdown, watched_markdown(watched))
        drawings = drawings_of(watched_elements(watched))
        paper = figures_for == "paper"
        return Written(target, markdown, tuple(export_figures(drawings, figures, paper=paper) if figures else ()))
    drawn = every_figure(material)
    target = out or (paths[0] / "report.html" if len(material.runs) == 1 else Path("report.html"))
    write_whole(target, run_page(material, drawn))
    if markdown is not None:
        write_whole(markdown, measured_markdown(material.result))
    files: Sequence[Path] = ()
    if figures is not None:
        files = export_figures(
            [figure for many in drawn.values() for figure in many if isinstance(figure, Figure)],
            figures,
            simulated=material.simulated,
            paper=figures_for == "paper",
        )
    return Written(target, markdown, tuple(files))
