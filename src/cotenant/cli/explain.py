"""`cotenant explain`: why a run came out as it did, or what a metric means."""

from pathlib import Path

import click

from cotenant.cli.output import Exit, as_json, console, show_elements, show_json

EPILOG = """\b
Examples:  cotenant explain RUN          what limits each tenant, what each mix contends for, what is worth it
           cotenant explain RUN --all    every slowdown in its parts
           cotenant explain stp          definition, formula, unit and caveats of a metric

Depends only on the run's records: the explanation is the same on any machine.
"""


@click.command("explain", epilog=EPILOG)
@click.argument("subjects", metavar="RUN...|METRIC", nargs=-1, required=True)
@click.option("--markdown", is_flag=True, help="Print Markdown.")
@click.option("--all", "everything", is_flag=True, help="Every slowdown, its parts and every sentence.")
@as_json
def command(*, subjects: tuple[str, ...], markdown: bool, everything: bool, as_json: bool) -> int:
    """Explain RUNs of one device (run folders or saved names), or a METRIC such as `stp`, `slowdown` or `p99`."""
    from cotenant.store.baselines import names

    subject = subjects[0]
    if len(subjects) > 1 or Path(subject).exists() or subject in names() or any(sign in subject for sign in "/\\"):
        _run(subjects, markdown=markdown, everything=everything, as_json=as_json)
    else:
        _metric(subject, as_json=as_json)
    return Exit.OK


def _run(runs: tuple[str, ...], *, markdown: bool, everything: bool, as_json: bool) -> None:
    from cotenant.api.explain import explain

    found = explain(runs)
    if as_json:
        show_json(found)
        return
    from cotenant.analyse.neighbours import WatchedExplanation
    from cotenant.reporting.elements import to_markdown as as_markdown

    if isinstance(found, WatchedExplanation):
        from cotenant.reporting.results import explained_elements

        elements = explained_elements(found)
    elif everything or markdown:
        from cotenant.reporting.results import explanation_elements

        elements = explanation_elements(found)
    else:
        from cotenant.reporting.results import explanation_screen

        elements = explanation_screen(found, console().width)
    if markdown:
        click.echo(as_markdown(elements, level=3))
    else:
        show_elements(elements)


def _metric(subject: str, *, as_json: bool) -> None:
    from cotenant.api.explain import explain_metric

    metric = explain_metric(subject)
    if as_json:
        show_json(metric)
    else:
        from cotenant.reporting.results import metric_elements

        show_elements(metric_elements(metric))
