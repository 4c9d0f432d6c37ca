"""A RayJob for KubeRay that runs a study on pods with a GPU each, and keeps the result on a volume."""

import shlex
from dataclasses import dataclass
from typing import Any

from cotenant.fleet.cluster import HEALTH, QUIET
from cotenant.fleet.selection import ALL
from cotenant.tenancy.document import write

# --- A batch script that starts a Ray cluster on the nodes of a Slurm job, runs a study and keeps the result


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """Options of the job."""

    study: str
    folder: str
    """Of the study's runs, below ``out``."""
    nodes: int
    gpus: int
    """Per node; 0: CPUs are measured."""
    hours: float
    out: str
    """A folder visible to all nodes."""
    devices: str = "all"


AWAIT = (
    "# A run uses the nodes that it finds, so it waits for all of them, but not longer than five minutes.",
    "await_nodes() {",
    '  srun --nodes=1 --ntasks=1 --overlap -w "$head" timeout 300 python3 - "$address:$port" "$1" <<\'PYTHON\'',
    "import sys, time, ray",
    "while not ray.is_initialized():",
    "    try:",
    "        ray.init(address=sys.argv[1], log_to_driver=False)",
    "    except ConnectionError:",
    "        time.sleep(1)",
    'while sum(node["Alive"] for node in ray.nodes()) < int(sys.argv[2]):',
    "    time.sleep(1)",
    "PYTHON",
    "}",
)


def script(job: SlurmJob) -> str:
    """The script for `sbatch`."""
    minutes = max(1, round(job.hours * 60))
    gpus = [f"#SBATCH --gpus-per-node={job.gpus}"] if job.gpus else []
    exports = [f"export {name}={value}" for name, value in (QUIET | HEALTH).items()]
    run = shlex.join(["cotenant", "run", job.study, "--devices", job.devices, "--out", job.out, "--quiet"])
    return "\n".join(
        [
            "#!/usr/bin/env bash",
            f"#SBATCH --job-name=cotenant-{_plain(job.study)}",
            f"#SBATCH --nodes={job.nodes}",
            "#SBATCH --ntasks-per-node=1",
            "#SBATCH --exclusive",
            *gpus,
            f"#SBATCH --time={minutes}",
            f"#SBATCH --output={_plain(job.study)}-%j.log",
            "# Nodes are exclusive: other jobs on a node would be measured too.",
            "set -euo pipefail",
            "",
            *exports,
            "export RAY_AUTH_MODE=token",
            "# A token for this job only, readable by its owner only, where every node sees it.",
            f"mkdir -p {shlex.quote(job.out)}",
            f"export RAY_AUTH_TOKEN_PATH=$(realpath {shlex.quote(job.out)})/.token-$SLURM_JOB_ID",
            r'(umask 077; od -An -N32 -tx1 /dev/urandom | tr -d " \n" > "$RAY_AUTH_TOKEN_PATH")',
            "trap 'rm -f \"$RAY_AUTH_TOKEN_PATH\"' EXIT",
            "",
            'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
            'address=$(srun --nodes=1 --ntasks=1 -w "$head" hostname --ip-address | tr " " "\\n" | head -n 1)',
            "port=$((20000 + SLURM_JOB_ID % 20000))",
            "common=(--disable-usage-stats --block)",
            *AWAIT,
            'srun --nodes=1 --ntasks=1 --overlap -w "$head" ray start --head --node-ip-address="$address" \\',
            '  --port="$port" --include-dashboard=false "${common[@]}" &',
            "await_nodes 1",
            f"if [ {job.nodes} -gt 1 ]; then",
            f'  srun --nodes={job.nodes - 1} --ntasks={job.nodes - 1} --overlap --exclude="$head" \\',
            '    ray start --address="$address:$port" "${common[@]}" &',
            f"  await_nodes {job.nodes}",
            "fi",
            "",
            "# Records go to the run's folder as they come; sbatch this again to continue after a time limit.",
            f"latest=$(ls -d {shlex.quote(f'{job.out}/{job.folder}')}/*/manifest.json 2>/dev/null | tail -n 1 || true)",
            'if [ -n "$latest" ] && grep -q \'"state": "\\(running\\|interrupted\\)"\' "$latest"; then',
            '  srun --nodes=1 --ntasks=1 --overlap -w "$head" \\',
            '    cotenant run --resume "$(dirname "$latest")" --on "ray://$address:$port"',
            "else",
            '  srun --nodes=1 --ntasks=1 --overlap -w "$head" \\',
            f'    {run} --on "ray://$address:$port"',
            "fi",
            "",
        ]
    )


def _plain(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-." else "-" for c in text.rsplit("/", 1)[-1]) or "study"


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
    return head + "---\n".join(write(document) for document in documents)


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
