"""`cotenant profile`: which kernels run, and how much they overlap."""

from contextlib import nullcontext
from pathlib import Path

import click

from cotenant.cli.output import Exit, as_json, console, show_elements, show_json

EPILOG = """\b
Examples:  cotenant profile pairs --device cuda:0     every mix of a study once, under a profiler
           cotenant profile RUN                       an earlier profile pass
           cotenant profile report.sqlite             an export of Nsight Systems: nsys export --type sqlite
           cotenant profile trace.csv                 nvprof --print-gpu-trace --csv

Profiling slows tenants down: a pass has its own run folder, and slowdowns are never computed from it.
On a CPU, kernels are torch's operators.
"""


@click.command("profile", epilog=EPILOG)
@click.argument("subject", metavar="STUDY|RUN|FILE")
@click.option("--device", metavar="DEVICE", help="Overrides the study's device.")
@click.option("--set", "overrides", metavar="KEY=VALUE", multiple=True, help="Change a key of the study; repeatable.")
@click.option("--tool", type=click.Choice(["nsys", "torch"]), help="The profiler; by default nsys if installed.")
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path), default=Path("runs"), show_default=True,
              help="Parent folder of the run folder.")  # fmt: skip
@click.option("--top", metavar="N", type=click.IntRange(1), default=5, show_default=True, help="Kernels per tenant.")
@click.option("--skip-bad", is_flag=True, help="For a file: skip unusable lines.")
@click.option("--html", metavar="FILE", type=click.Path(path_type=Path), help="Also write a page with timelines.")
@click.option("--quiet", "-q", is_flag=True, help="No progress, only the result.")
@as_json
def command(
    *,
    subject: str,
    device: str | None,
    overrides: tuple[str, ...],
    tool: str | None,
    out: Path,
    top: int,
    skip_bad: bool,
    html: Path | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Show kernels by tenant, and the share of time in which those of two tenants ran at once."""
    from cotenant.api.profile import profile
    from cotenant.measure.events import silent
    from cotenant.reporting.results import profile_elements
    from cotenant.reporting.terminal import watch

    with nullcontext(silent) if quiet else watch(console(talk=True)) as listener:
        found = profile(
            subject,
            device=device,
            overrides=overrides,
            tool=tool,
            out=out,
            top=top,
            skip_bad=skip_bad,
            html=html,
            listener=listener,
        )
    if as_json:
        show_json(found)
        return Exit.OK
    show_elements(
        profile_elements(found.profiles, tool=found.tool, notes=found.notes, measured=found.folder is not None)
    )
    if found.folder is not None and str(found.folder) != subject:
        _show_next(found.folder)
    return Exit.OK


def _show_next(folder: Path) -> None:
    import shlex

    from rich.text import Text

    where = shlex.quote(str(folder))
    question = '"select tenant, name, count(*), sum(duration_ns) from kernels group by all order by 4 desc"'
    talk = Text(f"\nagain: cotenant profile {where}\nmore:  cotenant sql {question} {where}", "dim")
    console(talk=True).print(talk, soft_wrap=True)
