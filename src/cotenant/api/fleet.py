"""`fleet`: Slurm and Kubernetes files that start a cluster and a run on it."""

from pathlib import Path
from typing import Literal

Kind = Literal["slurm", "kubernetes"]


def fleet_job(
    kind: Kind,
    study: str,
    *,
    nodes: int,
    gpus: int = 0,
    hours: float = 4.0,
    out: str = "runs",
    devices: str = "all",
    image: str | None = None,
) -> str:
    """The job script or manifest that starts a Ray cluster, runs a study on it and keeps the result.

    Args:
        kind: `slurm` or `kubernetes`.
        study: A built-in study's name, or a YAML file.
        nodes: Machines (or pods) with devices.
        gpus: GPUs per node; 0 measures their CPUs.
        hours: Time limit.
        out: A folder visible to all nodes; on Kubernetes a path in the volume.
        devices: Which of the cluster's devices to use.
        image: Kubernetes: a container image with cotenant[ray].

    Raises:
        CotenantError: The study is wrong, or something is missing.
    """
    from cotenant.errors import FleetError
    from cotenant.fleet import jobs
    from cotenant.store.folder import slug
    from cotenant.study.files import load_study

    name = load_study(study, ()).name  # fails now rather than after hours in a queue
    job = jobs.SlurmJob(study, slug(name), nodes, gpus, hours, out, devices)
    if kind == "slurm":
        return jobs.script(job)
    if image is None:
        raise FleetError("pods need an image with cotenant[ray] in it", hint="name it: --image registry/cotenant:TAG")
    file = Path(study)
    return jobs.manifest(job, image=image, study=file.read_text(encoding="utf-8") if file.is_file() else study)
