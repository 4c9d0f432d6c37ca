"""A RayJob for KubeRay that runs a study on pods with a GPU each, and keeps the result on a volume."""

import shlex
from typing import Any

from cotenant.fleet.selection import ALL
from cotenant.fleet.settings import HEALTH, QUIET
from cotenant.fleet.slurm import SlurmJob
from cotenant.tenancy.document import write

TOKEN = "cotenant-ray-token"  # noqa: S105 - the name of a secret
VOLUME = "cotenant-runs"
LABEL, MEASURED = "cotenant", "measured"
"""Label of the pods with devices; the head's cores are not measured."""


def manifest(job: SlurmJob, *, image: str, study: str) -> str:
    """The documents for `kubectl apply -f -`.

    Args:
        job: The job; ``out`` is a folder of the volume.
        image: Contains the same version of cotenant[ray].
        study: The text of the study's file; a built-in study's name.
    """
    documents = [_claim(), *([_study(study)] if "\n" in study else []), _job(job, image, study)]
    head = (
        "# Once: kubectl create secret generic " + TOKEN + " --from-literal=token=$(openssl rand -hex 32)\n"
        "# Then: kubectl apply -f THIS; kubectl wait rayjob/cotenant --for=jsonpath='{.status.jobStatus}'=SUCCEEDED\n"
        "# Result: kubectl cp, from a pod that mounts " + VOLUME + ", or `cotenant view` on that volume\n"
    )
    return head + "---\n".join(write(one) for one in documents)


def _claim() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": VOLUME},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "20Gi"}}},
    }


def _study(text: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "cotenant-study"},
        "data": {"study.yaml": text},
    }


def _job(job: SlurmJob, image: str, study: str) -> dict[str, Any]:
    named = "/study/study.yaml" if "\n" in study else study
    devices = f"{LABEL}={MEASURED}" if job.devices == ALL else job.devices
    out = f"/runs/{job.out.strip('/')}"
    command = shlex.join(["cotenant", "run", named, "--on", "ray", "--devices", devices, "--out", out, "--quiet"])
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "cotenant"},
        "spec": {
            "entrypoint": command,
            "shutdownAfterJobFinishes": True,
            "activeDeadlineSeconds": round(job.hours * 3600),
            "rayClusterSpec": {
                "authOptions": {"mode": "token"},
                "headGroupSpec": {
                    "rayStartParams": {"num-cpus": "0", "disable-usage-stats": "true"},
                    "template": {"spec": _pod(image, study, gpus=0)},
                },
                "workerGroupSpecs": [
                    {
                        "groupName": "devices",
                        "replicas": job.nodes,
                        "minReplicas": job.nodes,
                        "maxReplicas": job.nodes,
                        "labels": {LABEL: MEASURED},
                        "rayStartParams": {"disable-usage-stats": "true"},
                        "template": {"spec": _pod(image, study, gpus=job.gpus)},
                    }
                ],
            },
        },
    }


def _pod(image: str, study: str, *, gpus: int) -> dict[str, Any]:
    variables: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in (QUIET | HEALTH).items()]
    variables += [
        {"name": "RAY_AUTH_MODE", "value": "token"},
        {"name": "RAY_AUTH_TOKEN", "valueFrom": {"secretKeyRef": {"name": TOKEN, "key": "token"}}},
    ]
    mounts = [{"name": "runs", "mountPath": "/runs"}]
    volumes: list[dict[str, Any]] = [{"name": "runs", "persistentVolumeClaim": {"claimName": VOLUME}}]
    if "\n" in study:
        mounts.append({"name": "study", "mountPath": "/study"})
        volumes.append({"name": "study", "configMap": {"name": "cotenant-study"}})
    container: dict[str, Any] = {"name": "ray", "image": image, "env": variables, "volumeMounts": mounts}
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    return {"containers": [container], "volumes": volumes}
