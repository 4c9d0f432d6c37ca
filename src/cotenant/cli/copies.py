"""`cotenant copies`: how many copies of a server should share a device?"""

import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cotenant.cli.options import duration, percent
from cotenant.cli.output import Exit, as_json, console, show, show_json

if TYPE_CHECKING:
    from cotenant.analyse.copies_answer import CopiesAnswer

EPILOG = """\b
Examples:  cotenant copies "vllm serve MODEL --port {port}" --device cuda:0 \\
               --memory "--kv-cache-memory-bytes 4000000000"
           cotenant copies "python serve.py --port {port}" --workload http:/predict --up-to 3
           cotenant copies "python serve.py --port {port}" --workload http:/predict --rate 20/s --slo 50ms
           cotenant copies server.yaml --device cuda:0
           cotenant copies engine.yaml --device sim:a100-sxm4-80gb

\b
Servers are started and stopped many times. The exit code is 2 if the answer isn't decided.
"""


@click.command("copies", epilog=EPILOG)
@click.argument("server", metavar="COMMAND|FILE")
@click.option("--up-to", metavar="N", type=click.IntRange(min=2, max=64), default=4, show_default=True,
              help="The most copies.")  # fmt: skip
@click.option("--device", metavar="NAME", help="Where they run; default: the file's, or the CPU.")
@click.option("--workload", metavar="KIND", default="openai:", show_default=True,
              help="What a command's server is asked: openai:, v2: or http:/path.")  # fmt: skip
@click.option("--ready", metavar="PATH", default="/health", show_default=True,
              help="Answers with a 2xx once a command's server can serve.")  # fmt: skip
@click.option("--memory", metavar="ARGS", default="", help="Arguments that give each copy the same explicit memory.")
@click.option("--load", metavar="LOAD", help="At each copy, such as 'closed(16)'; default: what saturates a copy.")
@click.option("--rate", metavar="RATE", help="Of all copies together, such as 20/s; they divide it.")
@click.option("--slo", metavar="TIME", help="Objective of the p99, such as 50ms.")
@click.option("--sharing", metavar="WAY", multiple=True, help="Try only this way to share; repeatable.")
@click.option("--failures", metavar="PERCENT", type=percent, default="10%", show_default=True,
              help="Share of starts that may fail before a way isn't recommended.")  # fmt: skip
@click.option("--window", "window_s", metavar="TIME", type=duration, help="Of each measurement; default: by requests.")
@click.option("--blocks", metavar="N", type=click.IntRange(min=2), default=8, show_default=True,
              help="The most repetitions.")  # fmt: skip
@click.option("--budget", "budget_s", metavar="TIME", type=duration, help="Start no further block after this time.")
@click.option("--port", metavar="N", type=click.IntRange(1, 65000), default=8000, show_default=True,
              help="First port in the start script.")  # fmt: skip
@click.option("--simulate", is_flag=True, help="Start nothing: ask the model of the GPU, for a file with a model.")
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path), default="runs", show_default=True,
              help="Where the runs are stored.")  # fmt: skip
@click.option("--quiet", "-q", is_flag=True, help="No progress, only the answer.")
@as_json
def command(
    *,
    server: str,
    up_to: int,
    device: str | None,
    workload: str,
    ready: str,
    memory: str,
    load: str | None,
    rate: str | None,
    slo: str | None,
    sharing: tuple[str, ...],
    failures: float,
    window_s: float | None,
    blocks: int,
    budget_s: float | None,
    port: int,
    simulate: bool,
    out: Path,
    quiet: bool,
    as_json: bool,
) -> int:
    """Measure 1 to N copies of a server: how many pay, and under which way to share?"""
    from cotenant.api.copies import copies
    from cotenant.measure.events import silent
    from cotenant.reporting.elements import to_terminal
    from cotenant.reporting.results import copies_elements
    from cotenant.reporting.terminal import watch

    with nullcontext(silent) if quiet or as_json else watch(console(talk=True)) as listener:
        answer = copies(
            server, up_to=up_to, device=device, workload=workload, ready=ready, memory=memory, load=load, rate=rate,
            slo=slo, sharing=sharing, failures=failures, window_s=window_s, blocks=(min(3, blocks), blocks),
            budget_s=budget_s, port=port, simulate=simulate, out=out, listener=listener,
        )  # fmt: skip
    if as_json:
        show_json(answer)
    else:
        show(*to_terminal(copies_elements(answer)))
        _next(answer)
    return Exit.OK if answer.decided else Exit.NOT_READY


def _next(answer: "CopiesAnswer") -> None:
    """Suggest next commands, on stderr."""
    lines = []
    if answer.script is not None:
        where = shlex.quote(str(answer.script))
        lines += [f"start: {where} up", f"stop:  {where} down"]
    if answer.folder is not None:
        lines.append(f"more:  cotenant show {shlex.quote(str(answer.folder))}")
    if lines:
        console(talk=True).print("\n" + "\n".join(lines), style="dim", soft_wrap=True)
