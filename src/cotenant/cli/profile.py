"""`cotenant profile`: which kernels run, and how much they run at once."""

from contextlib import nullcontext
from pathlib import Path

import click

from cotenant.cli.exits import Exit
from cotenant.cli.output import as_json, console, show, show_json

EPILOG = """\b
Examples:  cotenant profile pairs --device cuda:0     every mix of a study once, under a profiler
           cotenant profile RUN                       a profile pass that was carried out before
           cotenant profile report.sqlite             an export of Nsight Systems: nsys export --type sqlite
           cotenant profile trace.csv                 nvprof --print-gpu-trace --csv

Profiling slows tenants down: a pass has a run folder of its own, and no slowdown is ever taken from it.
On a CPU kernels are torch's operators.
"""


@click.command("profile", epilog=EPILOG)
@click.argument("subject", metavar="STUDY|RUN|FILE")
@click.option("--device", metavar="DEVICE", help="Where to profile, instead of the study's own device.")
@click.option("--set", "overrides", metavar="KEY=VALUE", multiple=True, help="Change one key of the study; repeatable.")
@click.option("--tool", type=click.Choice(["nsys", "torch"]), help="The profiler; by default nsys where it is there.")
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path), default=Path("runs"), show_default=True,
              help="Folder in which the pass gets a folder of its own.")  # fmt: skip
@click.option("--top", metavar="N", type=click.IntRange(1), default=5, show_default=True, help="Kernels per tenant.")
@click.option("--skip-bad", is_flag=True, help="Of a file: leave out lines that can't be used.")
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
    """Show kernels by tenant, and how much of the time those of two tenants ran at once."""
    from cotenant.api.profile import profile
    from cotenant.measure.events import silent
    from cotenant.reporting.terminal.profile import profile_parts
    from cotenant.reporting.terminal.progress import watch

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
    show(*profile_parts(found.profiles, tool=found.tool, notes=found.notes, measured=found.folder is not None))
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
