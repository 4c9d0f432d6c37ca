"""`cotenant workloads`: available workloads, and the kernels of a request on a GPU."""

from pathlib import Path
from typing import Any

import click

from cotenant.cli.output import as_json, console, show, show_json

EPILOG = """\b
Examples:  cotenant workloads encoder
           cotenant workloads bert-base --kernels --device sim:a100-sxm4-40gb --batch 8
           cotenant workloads resnet50 --kernels --software tensorrt --json

Kernels come from a dry run of the real model without its weights; their times are simulated.
"""


class _ListByDefault(click.Group):
    """`cotenant workloads bert` lists; `servers` and `export` are subcommands."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """List if there is no subcommand."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group("workloads", cls=_ListByDefault)
def command() -> None:
    """List the workloads or the known servers, or write a model that servers can load.

    Without a subcommand: `list`, with --kernels, --json and more; see `cotenant workloads list --help`.
    """


@command.command("list", epilog=EPILOG, short_help="List the workloads, or those that match a name.")
@click.argument("words", metavar="[FILTER]", required=False)
@click.option("--kernels", is_flag=True, help="The kernels of a request of the workload that FILTER names.")
@click.option("--device", metavar="DEVICE", help="A simulated GPU.  [default: sim:a100-sxm4-40gb]")
@click.option("--batch", metavar="ITEMS", type=click.IntRange(min=1), help="Items per request.")
@click.option("--seq", metavar="TOKENS", type=click.IntRange(min=1), help="Tokens per item.")
@click.option("--dtype", metavar="DTYPE", help="Number format; default: what the GPU prefers.")
@click.option("--train", is_flag=True, help="A training step instead of inference.")
@click.option("--software", metavar="SOFTWARE", help="Execution mode: eager, compile, tensorrt, ...")
@as_json
def list_command(*, words: str | None, kernels: bool, as_json: bool, **options: Any) -> None:
    """List the workloads of the catalogue, or those whose name, family or description contains FILTER.

    With --kernels: the kernels of a request on a simulated GPU. The other options require it.
    """
    asked = {name: value for name, value in options.items() if value}
    if kernels and words:
        _kernels(words, asked, as_json=as_json)
        return
    if kernels:
        raise click.UsageError("--kernels needs the name of one workload.")
    if asked:
        raise click.UsageError(f"--{next(iter(asked))} requires --kernels.")

    from cotenant.api.lists import list_workloads
    from cotenant.reporting.terminal import workload_list

    found = list_workloads(words, say=console(talk=True).print)
    if as_json:
        show_json(found)
    elif found:
        show(workload_list(found))
    else:
        console(talk=True).print(f"no workload has {words!r} in its name, family or description")


@command.command("servers", short_help="List the servers that a study can start.")
@as_json
def servers_command(*, as_json: bool) -> None:
    """List the servers that `server: {preset: NAME, model: ...}` starts, and whether they are installed."""
    from cotenant.api.lists import list_servers
    from cotenant.reporting.terminal import server_list

    found = list_servers()
    if as_json:
        show_json([server.to_json() for server in found])
    else:
        show(server_list(found))


@command.command("export", short_help="Write a model that servers can load.")
@click.argument("name")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--seed", metavar="N", type=click.IntRange(min=0), default=0, show_default=True,
              help="Seed of the random weights.")  # fmt: skip
@click.option(
    "--dtype", type=click.Choice(["float32", "bfloat16", "float16"]), default="float32", help="Of the weights."
)
@click.option("--gguf", is_flag=True, help="Also write model.gguf, for llama.cpp; models of the Llama family.")
@as_json
def export_command(*, name: str, folder: Path, seed: int, dtype: str, gguf: bool, as_json: bool) -> None:
    """Write model NAME into DIR: configuration, random safetensors, tokenizer and chat template, for any server."""
    from cotenant.api.lists import export_workload

    found = export_workload(name, folder, seed=seed, dtype=dtype, gguf=gguf)
    if as_json:
        show_json(found)
    else:
        console().print(f"{found['model']}, {found['parameters']:,} random parameters, in {found['folder']}")


def _kernels(name: str, asked: dict[str, Any], *, as_json: bool) -> None:
    from cotenant.api.lists import list_kernels
    from cotenant.reporting.terminal import kernel_page

    where = {key: asked.pop(key) for key in ("device", "software") if key in asked}
    trace = list_kernels(name, **where, **asked)
    if as_json:
        show_json(trace)
    else:
        show(kernel_page(trace))
