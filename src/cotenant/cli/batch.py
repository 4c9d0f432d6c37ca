"""`cotenant batch`: the largest batch that fits, and the size that pays."""

from contextlib import nullcontext
from pathlib import Path

import click

from cotenant.cli.options import memory
from cotenant.cli.output import as_json, console, show_elements, show_json

EPILOG = """\b
Examples:  cotenant batch bert-base-mini resnet50-mini --memory 1GB
           cotenant batch resnet50 vit-b-16 --device sim:rtx-a5000 --dtype float32
           cotenant batch bert-base --device sim:t4 --impact --latency 50

Every size is tried in a fresh process. The search distinguishes what stopped it: out of memory, a
library's limit, 32-bit indices. Any other failure is an error. A simulated GPU only predicts.
"""


@click.command("batch", epilog=EPILOG)
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@click.option("--device", metavar="DEVICE", default="cpu", show_default=True, help="Where.")
@click.option("--memory", "memory_bytes", metavar="SIZE", type=memory, help="Limit on memory, e.g. 4GB or 512MiB.")
@click.option("--dtype", metavar="DTYPE", help="Number format; default: what the device prefers.")
@click.option("--image", metavar="PIXELS", type=int, help="Side of a vision model's images.")
@click.option("--seq", metavar="TOKENS", type=int, help="Tokens per item.")
@click.option("--train", is_flag=True, help="A training step instead of inference.")
@click.option("--verify/--no-verify", default=True, show_default=True, help="Try sizes in fresh processes.")
@click.option("--impact", is_flag=True, help="Also measure throughput, latency and stages by size.")
@click.option("--latency", "latency_goal_ms", metavar="MS", type=click.FloatRange(min=0, min_open=True),
              help="Latency limit for the recommendation, with --impact.")  # fmt: skip
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path), default=Path("runs"), show_default=True,
              help="Parent folder of the run behind --impact.")  # fmt: skip
@as_json
def command(
    *,
    models: tuple[str, ...],
    device: str,
    memory_bytes: int | None,
    dtype: str | None,
    image: int | None,
    seq: int | None,
    train: bool,
    verify: bool,
    impact: bool,
    latency_goal_ms: float | None,
    out: Path,
    as_json: bool,
) -> None:
    """Find the largest batch of MODEL that fits on a device; with --impact also the size that pays."""
    if latency_goal_ms is not None and not impact:
        raise click.UsageError("--latency chooses among measured sizes: add --impact.")

    from cotenant.api.batch import batch
    from cotenant.measure.events import silent
    from cotenant.reporting.results import NOTE, batch_elements
    from cotenant.reporting.terminal import watch

    talk = console(talk=True)
    with watch(talk) if impact else nullcontext(silent) as listener:
        answers = batch(
            models,
            device=device,
            memory_bytes=memory_bytes,
            dtype=dtype,
            image=image,
            seq=seq,
            train=train,
            verify=verify,
            impact=impact,
            latency_goal_ms=latency_goal_ms,
            out=out,
            say=lambda sentence: talk.print(sentence, style="dim"),
            listener=listener,
        )
    if as_json:
        show_json(answers)
        return
    show_elements(batch_elements(answers))
    talk.print(NOTE, style="dim")
