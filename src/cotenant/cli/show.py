"""`cotenant show`: results of runs."""

from pathlib import Path

import click

from cotenant.cli.output import as_json, show_elements, show_json, show_result

EPILOG = """\b
Examples:  cotenant show RUN
           cotenant show RUN RUN --json
           cotenant show results.json       times per stage, by model and batch size
"""


@click.command("show", epilog=EPILOG)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--skip-bad", is_flag=True, help="For a result file: skip unusable entries.")
@click.option("--all", "everything", is_flag=True, help="Every table, check and sentence, not only the answer.")
@as_json
def command(*, runs: tuple[Path, ...], skip_bad: bool, everything: bool, as_json: bool) -> None:
    """Show the results of any number of run folders, or a result file of the original model-search study."""
    from cotenant.api.show import show, show_search_results
    from cotenant.errors import WatchedRuns

    if len(runs) == 1 and runs[0].is_file() and runs[0].suffix == ".json":
        from cotenant.reporting.results import search_file_elements

        results = show_search_results(runs[0], skip_bad=skip_bad)
        if as_json:
            show_json(results)
        else:
            show_elements(search_file_elements(results))
        return
    try:
        result = show(runs)
    except WatchedRuns:
        from cotenant.api.watch import show_watched
        from cotenant.reporting.results import watched_elements

        watched = show_watched(runs)
        if as_json:
            show_json(watched)
        else:
            show_elements(watched_elements(watched, everything=everything))
        return
    if as_json:
        show_json(result)
    else:
        show_result(result, everything=everything)
