"""`cotenant fleet`: Slurm and Kubernetes files that start a cluster and a run on it."""

from typing import Any

import click

from cotenant.cli.output import as_json, show_json

EPILOG = """\b
Examples:  cotenant fleet slurm variability --nodes 10 --gpus 4 > job.sh && sbatch job.sh
           cotenant fleet kubernetes mine.yaml --nodes 8 --gpus 1 --image registry/cotenant:0.1 | kubectl apply -f -

Not needed for a running cluster: cotenant run STUDY --on ray://HEAD:6379
"""


@click.command("fleet", epilog=EPILOG)
@click.argument("kind", type=click.Choice(["slurm", "kubernetes"]))
@click.argument("study")
@click.option("--nodes", metavar="N", type=click.IntRange(1, 100_000), required=True, help="Machines with devices.")
@click.option("--gpus", metavar="N", type=click.IntRange(0, 64), default=0, show_default=True,
              help="GPUs per machine; 0 measures CPUs.")  # fmt: skip
@click.option("--hours", metavar="H", type=click.FloatRange(min=0.02), default=4.0, show_default=True,
              help="Time limit.")  # fmt: skip
@click.option("--out", metavar="DIR", default="runs", show_default=True, help="A folder visible to all nodes.")
@click.option(
    "--devices", metavar="LIST", default="all", show_default=True, help="Which of the cluster's devices to use."
)
@click.option("--image", metavar="NAME", help="Kubernetes: a container image with cotenant[ray].")
@as_json
def command(*, as_json: bool, **asked: Any) -> None:
    """Write the Slurm script or the RayJob manifest that starts a Ray cluster and runs STUDY on it."""
    from cotenant.api.fleet import fleet_job

    kind = asked.pop("kind")
    text = fleet_job(kind, asked.pop("study"), **asked)
    if as_json:
        show_json({"kind": kind, "text": text})
    else:
        click.echo(text, nl=False)
