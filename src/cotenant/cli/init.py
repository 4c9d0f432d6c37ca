"""`cotenant init`: describe your models once, in a file for every verb."""

import sys
from pathlib import Path

import click

from cotenant.cli.output import as_json, console, show_json

EPILOG = """\b
Examples:  cotenant init
           cotenant init --model 'bert-base, 100/s, p99 30ms' --model 'llama-3.2-3b, 1/s, 512 to 128 tokens'
           cotenant init --model 'yolos-small, 10/s, p99 100ms' --device cuda:0 --out detector.yaml
           cotenant init --model 'openai:http://localhost:8000, 5/s' --model 'http://localhost:8001/predict, 20/s'

A model is a name of `cotenant workloads`, a folder with weights, the address of a server, or any
other workload; then, in any order and separated by commas: a rate, objectives, lengths. What you
leave out is guessed and commented.
"""


@click.command("init", epilog=EPILOG)
@click.option("--model", "models", metavar="WORDS", multiple=True, help="'NAME, RATE, OBJECTIVE...'; repeatable.")
@click.option("--device", metavar="NAME", help="The device they share.  [default: sim:a100-sxm4-40gb; for servers cpu]")
@click.option(
    "--out", "path", metavar="FILE", type=click.Path(path_type=Path), default=Path("tenants.yaml"), show_default=True
)
@as_json
def command(*, models: tuple[str, ...], device: str | None, path: Path, as_json: bool) -> None:
    """Write a tenants file from a few words about each model."""
    from cotenant.api.init import init

    if not models and sys.stdin.isatty() and not as_json:
        models, device = _asked(device)
    written, commands = init(models, device=device, path=path)
    if as_json:
        show_json({"file": str(written), "next": commands})
        return
    talk = console(talk=True)
    talk.print(f"Written: {written}. Look through its comments, then:", highlight=False)
    click.echo("\n".join(commands))


def _asked(device: str | None) -> tuple[tuple[str, ...], str]:
    """Ask for the models until an empty line, then for the device."""
    from cotenant.errors import CotenantError
    from cotenant.study.first_file import first_device, read_words
    from cotenant.workloads.catalogue import find

    click.echo("Which models share the device? A name, then rate and objective: bert-base, 100/s, p99 30ms", err=True)
    models: list[str] = []
    while words := click.prompt(f"model {len(models) + 1} (empty: done)", default="", show_default=False, err=True):
        try:
            find(read_words(words).workload)
        except CotenantError as error:
            click.echo(error, err=True)
            continue
        models.append(words)
    return tuple(models), device or click.prompt("device", default=first_device(models), err=True)
